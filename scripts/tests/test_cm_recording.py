import unittest

from rdmaxx_test.cm_recording import RXE, differences, read

BIND = {"call": "rdma_bind_addr", "result": -1, "errno": "EADDRINUSE"}
NONE = {"event": "none"}


class Comparison(unittest.TestCase):
    def test_the_kernels_recording_is_there_and_like_itself(self):
        recorded = read(RXE)
        self.assertIn("connect_step_by_step", recorded)
        self.assertEqual(differences(recorded, recorded), [])

    def test_a_different_field_is_named_by_its_place(self):
        ours = {"twice": {"only": [{**BIND, "errno": "EINVAL"}]}}
        theirs = {"twice": {"only": [BIND]}}
        self.assertEqual(
            differences(ours, theirs), ["twice/only/0/errno: EINVAL instead of EADDRINUSE (rdma_bind_addr)"]
        )

    def test_other_missing_and_additional_steps_are_found(self):
        self.assertEqual(
            differences({"a": {"active": [NONE]}}, {"a": {"active": [BIND]}}),
            ["a/active/0: none instead of rdma_bind_addr"],
        )
        self.assertEqual(
            differences({"a": {"active": []}}, {"a": {"active": [BIND]}}),
            ["a/active/0: nothing instead of rdma_bind_addr"],
        )
        self.assertEqual(
            differences({"a": {"active": [BIND]}}, {"a": {}}), ["a/active/0: rdma_bind_addr instead of nothing"]
        )

    def test_scenarios_may_be_missing_or_end_badly(self):
        self.assertEqual(differences({}, {"a": {}}), ["a: only in the recording"])
        self.assertEqual(differences({"a": {}}, {}), ["a: not in the recording"])
        self.assertEqual(
            differences({"a": "ended by SIGSEGV"}, {"a": "does not end"}),
            ["a: ended by SIGSEGV instead of does not end"],
        )

    def test_what_is_accepted_has_to_be_there(self):
        ours, theirs = {"a": {"active": [NONE]}}, {"a": {"active": [BIND]}}
        self.assertEqual(differences(ours, theirs, {"a": "for a reason"}), [])
        self.assertEqual(differences(ours, theirs, {"a/active/0": "for a reason"}), [])
        self.assertEqual(
            differences(ours, ours, {"a": "for a reason"}), ["a: accepted, but there is no difference"]
        )
