import unittest

from rdmaxx_test.listing import parse
from rdmaxx_test.selection import Selection


class Selecting(unittest.TestCase):
    def test_no_words_select_everything(self):
        self.assertTrue(Selection().covers("anything"))
        self.assertEqual(Selection().gtest_filter(), "*")

    def test_words_are_parts_of_names_or_globs(self):
        self.assertTrue(Selection(("pair",)).covers("queue_pair.connects"))
        self.assertFalse(Selection(("pair*",)).covers("queue_pair.connects"))
        self.assertEqual(Selection(("pair", "cq.*")).gtest_filter(), "*pair*:cq.*")

    def test_checks_alone_need_no_test_programs(self):
        self.assertTrue(Selection(("check: format",)).names_only("check: "))
        self.assertFalse(Selection(("check: format", "cq")).names_only("check: "))

    def test_listing_joins_suites_and_tests(self):
        listing = "Running main() from x\nqueue_pair.\n  connects\n  sends/0  # GetParam() = 4\n"
        self.assertEqual(parse(listing), ["queue_pair.connects", "queue_pair.sends/0"])
