"""The repository as the commands ./run, ./test and ./bench see it: files, builds, the testbed."""
