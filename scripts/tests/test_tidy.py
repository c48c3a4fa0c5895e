import unittest
from pathlib import Path

from rdmaxx_project.repository import ROOT
from rdmaxx_test.checks import tidy
from rdmaxx_test.checks.tidy import Unit, grouped


def unit(name: str, options: str = "clang++-19 -O1") -> Unit:
    return Unit(Path(ROOT / name), f"{options} -o {name}.o -c {ROOT / name}")


def names(groups) -> list[list[str]]:
    return [[unit.name for unit in group] for group in groups]


class Groups(unittest.TestCase):
    def test_files_of_one_folder_are_together(self):
        units = [unit("src/core/b.cpp"), unit("src/cm/x.cpp"), unit("src/core/a.cpp")]
        self.assertEqual(names(grouped(units)), [["src/cm/x.cpp"], ["src/core/a.cpp", "src/core/b.cpp"]])

    def test_other_options_are_another_group(self):
        units = [unit("src/core/a.cpp"), unit("src/core/b.cpp", "clang++-19 -O2")]
        self.assertEqual(names(grouped(units)), [["src/core/a.cpp"], ["src/core/b.cpp"]])

    def test_a_group_is_of_limited_size(self):
        units = [unit(f"src/core/{number:02}.cpp") for number in range(tidy.GROUP_SIZE + 1)]
        self.assertEqual([len(group) for group in grouped(units)], [tidy.GROUP_SIZE, 1])

    def test_programs_are_alone(self):
        units = [unit("examples/a.cpp"), unit("examples/b.cpp")]
        self.assertEqual(names(grouped(units)), [["examples/a.cpp"], ["examples/b.cpp"]])


class Messages(unittest.TestCase):
    def test_each_has_its_lines(self):
        output = "src/a.cpp:1:2: error: bad [x]\n  1 | code\nsrc/b.cpp:3:4: warning: worse [y]\n"
        self.assertEqual(
            tidy.split(output), ["src/a.cpp:1:2: error: bad [x]\n  1 | code", "src/b.cpp:3:4: warning: worse [y]"]
        )
