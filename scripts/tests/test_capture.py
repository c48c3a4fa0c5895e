import unittest

from rdmaxx_test.checks.capture import complaints, differences, without_repeats
from rdmaxx_test.roce_capture import Packet, icrc_holds
from rdmaxx_project.sockets import _has_listener

# An acknowledgement of the kernel's rxe (tests/data/roce), from the IP header on.
ACKNOWLEDGEMENT = bytes.fromhex("4500003060e540004011c5c50a0800020a080001c12112b7001c00001100ffff00000011001111111f000001b987784e")


def packet(number: int, opcode: str, psn: str, syndrome: str = "") -> Packet:
    return Packet(number, {"opcode": opcode, "PSN": psn, "syndrome": syndrome})


class Icrc(unittest.TestCase):
    def test_rxe_computes_the_same(self):
        self.assertTrue(icrc_holds(ACKNOWLEDGEMENT))

    def test_a_flipped_bit_is_found_but_a_router_may_count_down(self):
        damaged = bytearray(ACKNOWLEDGEMENT)
        damaged[30] ^= 1
        self.assertFalse(icrc_holds(damaged))
        forwarded = bytearray(ACKNOWLEDGEMENT)
        forwarded[8] -= 1
        self.assertTrue(icrc_holds(forwarded))


class Comparison(unittest.TestCase):
    def test_kinds(self):
        self.assertEqual(packet(1, "4", "1").kind, "RC SEND only")
        self.assertEqual(packet(1, "17", "1", "31").kind, "RC ACK")
        self.assertEqual(packet(1, "17", "1", "0x2c").kind, "RC NAK receiver not ready")
        self.assertEqual(packet(1, "177", "1", "96").kind, "XRC NAK sequence")

    def test_repeated_refusals_count_once(self):
        once = [packet(1, "4", "1"), packet(2, "17", "1", "44")]
        then = [packet(3, "4", "1"), packet(4, "17", "1", "31")]
        self.assertEqual(without_repeats(once * 3 + then), once + then)

    def test_a_different_field_and_a_missing_packet_are_found(self):
        ours = [packet(1, "4", "1")]
        theirs = [packet(1, "4", "2"), packet(2, "17", "2", "31")]
        found = differences(ours, theirs)
        self.assertIn("PSN is 1, in rxe's packet 1 (RC SEND only) 2", found[0])
        self.assertEqual(found[1], "1 packets instead of 2")
        self.assertEqual(differences(theirs, theirs), [])

    def test_complaints_name_the_packet(self):
        bad = packet(7, "4", "1")
        bad.complaints.append("the ICRC is wrong")
        self.assertEqual(complaints([bad]), ["packet 7 (RC SEND only): the ICRC is wrong"])


class Listening(unittest.TestCase):
    TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0
   1: 0100007F:4854 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0
"""

    def test_only_a_listener_counts(self):
        self.assertTrue(_has_listener(self.TABLE, 0x4853))
        self.assertFalse(_has_listener(self.TABLE, 0x4854))
