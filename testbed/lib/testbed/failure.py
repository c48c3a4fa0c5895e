"""How the testbed itself fails, as distinct from the command that it runs.

The exit codes follow timeout(1) and docker(1), so that they seldom collide with those of a test program.
"""

EXIT_USAGE = 2
EXIT_KERNEL_WARNING = 123  # the command succeeded, but the guest's kernel complained
EXIT_TIMEOUT = 124
EXIT_TESTBED = 125  # the guest did not boot, died, or could not be prepared


class Failure(Exception):
    """Something the user should read, without a stack trace."""

    exit_code = EXIT_TESTBED


class UsageError(Failure):
    """The request makes no sense, or this machine lacks a package that it needs."""

    exit_code = EXIT_USAGE
