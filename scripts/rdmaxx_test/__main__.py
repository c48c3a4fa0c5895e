import sys

from rdmaxx_project import processes
from rdmaxx_test.command_line import parse
from rdmaxx_test.session import Session

processes.end_cleanly(lambda: Session(parse(sys.argv[1:])).run())
