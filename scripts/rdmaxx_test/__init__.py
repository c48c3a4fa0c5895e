"""./test: builds what is asked for, runs it in its lanes, and prints one matrix of results."""
