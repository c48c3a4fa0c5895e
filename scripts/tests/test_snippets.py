import os
import tempfile
import unittest
from pathlib import Path

from rdmaxx_test import snippet_runs
from rdmaxx_test.checks.snippets import find

PAGE = """
Text.

<!-- snippet-setup: extern queue_pair qp; -->
```cpp
#include <vector>
qp.post(x);
```

```cpp declarations
struct s {};
```

- in a list
  ```cpp
  int main() {}
  ```

```cpp
co_await qp.send(x);
```

```sh
ls
```
"""


class Snippets(unittest.TestCase):
    def setUp(self):
        self.body, self.declarations, self.program, self.coroutine = find("README.md", PAGE)

    def test_place_is_where_the_block_opens(self):
        self.assertEqual(self.body.place, "README.md:5")

    def test_bodies_get_their_setup_and_includes(self):
        source = self.body.source()
        self.assertLess(source.index("#include <vector>"), source.index("extern queue_pair qp;"))
        self.assertIn("result<void> snippet() {\n qp.post(x);".replace("\n ", "\n"), source)

    def test_declarations_stand_at_namespace_scope(self):
        self.assertNotIn("snippet()", self.declarations.source())

    def test_programs_are_left_as_they_are(self):
        self.assertEqual(self.program.source(), "int main() {}\n")

    def test_awaiting_makes_a_coroutine(self):
        self.assertIn("task<result<void>> snippet() {", self.coroutine.source())


class Runs(unittest.TestCase):
    def test_the_comment_before_a_program_says_how_it_runs(self):
        (program,) = find("README.md", "<!-- snippet-run: client 127.0.0.1:7471 => hello -->\n```cpp\nint main() {}\n```\n")
        role = snippet_runs.read_role(program.run)
        self.assertEqual(role, snippet_runs.Role("client", ("127.0.0.1:7471",), "hello"))

    def test_what_is_no_role_is_refused(self):
        self.assertIsNone(snippet_runs.read_role(""))
        self.assertIsNone(snippet_runs.read_role("bystander => hello"))

    def run_scripts(self, **scripts: tuple[str, str]) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            programs = {}
            for name, (role, script) in scripts.items():
                path = Path(folder, name)
                path.write_text(f"#!/bin/sh\n{script}\n")
                path.chmod(0o755)
                programs[name] = (path, snippet_runs.read_role(role))
            return dict(snippet_runs.run(programs, dict(os.environ)))

    def test_output_and_status_are_checked(self):
        problems = self.run_scripts(
            good=("alone => hello", "echo hello"), silent=("alone => hello", "true"), bad=("alone", "echo why; exit 3")
        )
        self.assertEqual(problems["good"], "")
        self.assertIn("printed no `hello`", problems["silent"])
        self.assertIn("ended with 3:\nwhy", problems["bad"])

    def test_a_server_and_its_client_run_together(self):
        problems = self.run_scripts(server=("server", "exit 0"), client=("client x => x", 'echo "$1"'))
        self.assertEqual(problems, {"server": "", "client": ""})

    def test_a_server_alone_is_a_problem(self):
        self.assertIn("needs a client", self.run_scripts(server=("server", "true"))["server"])
