import unittest

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
