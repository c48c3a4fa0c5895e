import unittest

from rdmaxx_test.checks.softverbs_abi import missing, parse, superfluous

LISTING = """
Symbol table '.dynsym' contains 7 entries:
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND malloc@GLIBC_2.2.5 (2)
     2: 0000000000001000    11 FUNC    GLOBAL DEFAULT   12 ibv_alloc_pd@IBVERBS_1.0
     3: 0000000000001010    11 FUNC    GLOBAL DEFAULT   12 ibv_alloc_pd@@IBVERBS_1.1
     4: 0000000000001020    11 FUNC    GLOBAL DEFAULT   12 ibv_register_driver@IBVERBS_1.1
     5: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  ABS IBVERBS_1.1
     6: 0000000000001030    11 FUNC    GLOBAL DEFAULT   12 ibv_query_gid_type
"""


class SymbolTable(unittest.TestCase):
    def test_the_default_version_counts(self):
        self.assertEqual(
            parse(LISTING),
            {"ibv_alloc_pd": "IBVERBS_1.1", "ibv_register_driver": "IBVERBS_1.1", "ibv_query_gid_type": ""},
        )


class Comparison(unittest.TestCase):
    REAL = {"a": "IBVERBS_1.1", "b": "IBVERBS_1.0", "cmd": "IBVERBS_PRIVATE_34"}

    def test_equal_libraries_are_fine(self):
        ours = {"a": "IBVERBS_1.1", "b": "IBVERBS_1.0", "softverbs_version": "SOFTVERBS_0"}
        self.assertEqual(missing(ours, self.REAL) + superfluous(ours, self.REAL), [])

    def test_a_forgotten_name_and_a_wrong_version_are_found(self):
        self.assertEqual(
            missing({"a": "IBVERBS_1.0"}, self.REAL),
            [
                "libsoftverbs has a@IBVERBS_1.0 instead of a@IBVERBS_1.1",
                "libsoftverbs has no b@IBVERBS_1.0",
            ],
        )

    def test_private_and_foreign_names_must_not_be_visible(self):
        ours = {"cmd": "", "_ZSt4cout": ""}
        self.assertEqual(
            superfluous(ours, self.REAL), ["libsoftverbs exports _ZSt4cout@", "libsoftverbs exports cmd@"]
        )
