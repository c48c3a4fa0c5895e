import sys

from rdmaxx_test.command_line import parse
from rdmaxx_test.session import Session

sys.exit(Session(parse(sys.argv[1:])).run())
