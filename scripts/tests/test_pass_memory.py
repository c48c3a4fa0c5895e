import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from rdmaxx_project.repository import ROOT
from rdmaxx_test.pass_memory import KEPT_FOR, PassMemory, key_of


class Memory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        change = mock.patch.dict(os.environ, {"RDMAXX_CACHE": folder.name})
        change.start()
        self.addCleanup(change.stop)

    def test_what_passed_is_known_to_every_clone(self):
        self.assertFalse(PassMemory("x").knows("key"))
        PassMemory("x").remember("key")
        self.assertTrue(PassMemory("x").knows("key"))
        self.assertFalse(PassMemory("y").knows("key"))

    def test_what_nobody_asked_for_is_forgotten(self):
        memory = PassMemory("x")
        memory.remember("old")
        memory.remember("new")
        [file] = self.folder.rglob("old")
        os.utime(file, (file.stat().st_mtime - KEPT_FOR - 10,) * 2)
        memory.forget_old()
        self.assertFalse(memory.knows("old"))
        self.assertTrue(memory.knows("new"))


class Keys(unittest.TestCase):
    def test_the_folder_of_a_clone_is_not_part_of_one(self):
        self.assertEqual(key_of(f"-I{ROOT}/include"), key_of("-I/include"))

    def test_parts_do_not_run_together(self):
        self.assertNotEqual(key_of("ab", "c"), key_of("a", "bc"))

    def test_a_file_counts_by_its_content(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder, "1"), Path(folder, "2")
            first.write_text("a")
            second.write_text("b")
            self.assertNotEqual(key_of(first), key_of(second))
            third = Path(folder, "3")
            third.write_text("a")
            self.assertEqual(key_of(first), key_of(third))
