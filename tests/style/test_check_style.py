"""check_style.py finds what it should, and nothing else."""
import pathlib
import tempfile
import unittest

import check_style

HEAD = "/* What lives here. */\n"


def breaches(**files):
    """Checks a tree; a file's name is given with __ for / and _c or _h for its ending."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name.replace("__", "/")[:-2] + "." + name[-1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_style.check(root)


class Style(unittest.TestCase):
    def bad(self, expected, code, name="runtime__a_c", **others):
        found = breaches(**{name: HEAD + code}, **others)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])

    def good(self, code, name="runtime__a_c", **others):
        self.assertEqual(breaches(**{name: HEAD + code}, **others), [])

    def test_text(self):
        self.assertIn("first comment", breaches(runtime__a_c="int tu_f(void);\n")[0])
        self.bad("a.c:2: tab or trailing space", "int tu_f(void); \n")
        self.bad("tab or trailing space", "\tint tu_f(void);\n")
        self.bad("unfinished", "/* TO" + "DO: more */\n")
        self.bad("501 lines", "\n" * 500)
        self.good("\n" * 499)

    def test_includes(self):
        self.bad("up, from runtime", '#include "transport/edge.h"\n')
        self.bad("up, from collectives", '#include "api/job.h"\n', "collectives__a_c")
        self.bad("include/ only", '#include "runtime/log.h"\n', "apps__bench__a_c")
        self.bad("project root", '#include "../runtime/log.h"\n', "transport__a_c")
        self.good('#include "runtime/log.h"\n#include "tutti/tutti.h"\n', "api__a_c")
        self.good('#include "tutti/tutti.h"\n', "apps__bench__a_c")

    def test_foreign(self):
        self.bad("PMIx", "#include <pmix.h>\n")
        self.good("#include <pmix.h>\n", "runtime__bootstrap_pmix_c")
        self.bad("verbs", "#include <infiniband/verbs.h>\n", "transport__shm_c")
        self.good("#include <infiniband/verbs.h>\n", "transport__verbs_qp_c")
        room = HEAD + "#include <infiniband/verbs.h>\n"
        include = '#include "transport/verbs_room.h"\n'
        self.bad("verbs", include, "transport__shm_c", transport__verbs_room_h=room)
        self.good(include, "transport__verbs_qp_c", transport__verbs_room_h=room)

    def test_calls(self):
        self.bad("banned call: exit", "void tu_f(void)\n{\n    exit(1);\n}\n")
        self.bad("banned call: abort", "#define TU_DIE() abort()\n")
        self.bad("banned call: sprintf", "void tu_f(char *s)\n{\n    sprintf(s, \"\");\n}\n")
        self.good("/* exit(1) */ void tu_exit(void);\nvoid tu_g(void) {\n    tu_log(\"abort()\");\n}\n")
        self.bad("banned call: _exit", "void tu_f(void) {\n    _exit(1);\n}\n")
        self.good("void tu_f(void) {\n    _exit(1);\n}\n", "runtime__bootstrap_local_c")
        self.bad("only runtime/config.c", "void tu_f(void) {\n    getenv(\"A\");\n}\n")
        self.good("void tu_f(void) {\n    getenv(\"A\");\n}\n", "runtime__config_c")

    def test_variables(self):
        for code in ("int a;\n", "static int a = 1;\n", "static const char *a;\n",
                     "static const char *a[] = {\"x\", \"y\"};\n", "static struct tu_x a = {.b = 1};\n", "static _Thread_local int a;\n",
                     "static int (*a)(void);\n", "static _Atomic int a;\n",
                     "static _Alignas(64) char a[64];\n"):
            with self.subTest(code):
                self.bad("mutable variable", code)
        self.bad("mutable static", "int tu_f(void) {\n    static int n;\n    return n++;\n}\n")
        self.bad("mutable static", "int tu_f(void) {\n    static int n[2] = {0};\n    return *n;\n}\n")

    def test_no_variables(self):
        for code in ("struct tu_x {\n    int a;\n};\n", "struct tu_x;\n", "enum tu_e { TU_A, TU_B };\n",
                     "typedef int tu_f(void);\n", "int tu_f(const char *s, ...)\n"
                     "    __attribute__((format(printf, 1, 2)));\n",
                     "static const char *const a[] = {\"x\"};\n", "static const int a = 3;\n",
                     "static const struct tu_x a = {.f = tu_f, .g = {1, 2}};\n",
                     "static int (*const a[])(void) = {tu_f};\n",
                     "static_assert(sizeof(int) == 4, \"a; b\");\n",
                     "struct tu_x {\n    _Alignas(64) char a[64];\n} __attribute__((packed));\n",
                     "extern char **environment;\n", "int tu_f(void (*call)(void *), int a);\n",
                     "static inline int tu_f(struct tu_x *x)\n{\n    int a[] = {1};\n"
                     "    static const int b = 2;\n    return a[0] + b;\n}\n"):
            with self.subTest(code):
                self.good(code)

    def test_function_length(self):
        body = "void tu_f(int a,\n          int b)\n{\n" + "    a++;\n" * 56 + "}\n"
        short = "void tu_g(void)\n{\n}\n" * 9
        self.good(short + body)
        self.bad("a.c:2: function of 61 lines", body.replace("{\n", "{\n    b++;\n") + short)
        self.bad("9 of 11 functions", short + body + body.replace("tu_f", "tu_h"))


if __name__ == "__main__":
    unittest.main()
