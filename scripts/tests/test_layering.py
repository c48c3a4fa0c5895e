import unittest
from pathlib import Path

from rdmaxx_test.checks.layering import problems, softverbs_problems

RESULT, DEVICE, CM_ID = (
    Path(f"include/rdmaxx/{name}.hpp") for name in ("core/result", "verbs/device", "cm/cm_id")
)


def includes(*names: str) -> str:
    return "".join(f"#include {name}\n" for name in names)


class Layering(unittest.TestCase):
    def test_includes_may_point_down(self):
        self.assertEqual(
            problems({RESULT: "", DEVICE: includes("<rdmaxx/core/result.hpp>", "<vector>")}), []
        )

    def test_includes_may_not_point_up(self):
        (problem,) = problems({RESULT: includes("<rdmaxx/verbs/device.hpp>"), DEVICE: ""})
        self.assertIn("layer core includes rdmaxx/verbs/device.hpp of the higher layer verbs", problem)

    def test_sources_belong_to_their_folders_layer(self):
        (problem,) = problems({Path("src/core/a.cpp"): includes('"verbs/b.hpp"'), Path("src/verbs/b.hpp"): ""})
        self.assertIn("higher layer verbs", problem)

    def test_public_headers_do_not_include_private_ones(self):
        (problem,) = problems({DEVICE: includes('"verbs/b.hpp"'), Path("src/verbs/b.hpp"): ""})
        self.assertIn("not installed", problem)

    def test_circles_are_found(self):
        other = Path("include/rdmaxx/core/error.hpp")
        found = problems(
            {RESULT: includes("<rdmaxx/core/error.hpp>"), other: includes('"result.hpp"')}
        )
        self.assertEqual(len(found), 1)
        self.assertIn("circle of includes", found[0])

    def test_nobody_includes_the_umbrella(self):
        umbrella = Path("include/rdmaxx/rdmaxx.hpp")
        found = problems({umbrella: includes("<rdmaxx/core/result.hpp>"), RESULT: "",
                          Path("src/core/result.cpp"): includes("<rdmaxx/rdmaxx.hpp>")})
        self.assertEqual(len(found), 1)
        self.assertIn("umbrella", found[0])

    def test_unknown_layers_are_reported(self):
        (problem,) = problems({Path("include/rdmaxx/utils/text.hpp"): ""})
        self.assertIn("'utils' is not among the layers", problem)

    def test_librdmacm_stays_out_of_the_verbs(self):
        found = problems({DEVICE: includes("<rdma/rdma_cma.h>"), CM_ID: includes("<rdma/rdma_cma.h>")})
        self.assertEqual(len(found), 1)
        self.assertIn(str(DEVICE), found[0])


class SoftverbsTest(unittest.TestCase):
    def test_includes_point_down(self):
        sources = {
            Path("net/address.hpp"): "#include <array>\n#include <net/if.h>\n",
            Path("wire/icrc.hpp"): "#include <net/address.hpp>\n",
        }
        self.assertEqual(softverbs_problems(sources), [])

    def test_an_include_that_points_up_is_found(self):
        sources = {Path("net/address.hpp"): "#include <wire/icrc.hpp>\n", Path("wire/icrc.hpp"): ""}
        [problem] = softverbs_problems(sources)
        self.assertIn("net/address.hpp", problem)

    def test_a_circle_and_an_unknown_layer_are_found(self):
        circle = {Path("cm/a.hpp"): "#include <cm/b.hpp>\n", Path("cm/b.hpp"): "#include <cm/a.hpp>\n"}
        self.assertIn("circle", softverbs_problems(circle)[0])
        self.assertIn("nowhere", softverbs_problems({Path("nowhere/a.hpp"): ""})[0])
