use super::*;
use crate::mask::mask;

fn function(name: &str, line: usize, lines: usize) -> Function {
    Function { name: name.to_owned(), line, lines }
}

#[test]
fn functions_are_measured_from_fn_to_brace() {
    let text = "struct S;\n\nfn a() {}\nimpl S {\n    \
        fn b(x: [u8; 4]) -> u8\n    {\n        x[0]\n    }\n}\n";
    assert_eq!(functions(&mask(text)), [function("a", 3, 1), function("b", 5, 4)]);
}

#[test]
fn braces_in_literals_do_not_count() {
    let text = "fn a() {\n    let x = \"}\"; // }\n    let y = '}';\n}\nfn b() {}\n";
    assert_eq!(functions(&mask(text)), [function("a", 1, 4), function("b", 5, 1)]);
}

#[test]
fn signatures_and_pointer_types_are_no_functions() {
    let text = "trait T { fn a(&self); }\ntype F = fn(u8) -> u8;\n";
    assert_eq!(functions(&mask(text)), []);
}

#[test]
fn modules_know_parents_paths_and_tests() {
    let text = "mod a;\n#[path = \"x/y.rs\"]\nmod b;\nmod c { mod d; }\n\
        #[path = \"../z\"]\nmod e { mod f; }\n#[cfg(test)]\nmod tests;\n";
    let found = modules(text, &mask(text));
    let names: Vec<_> = found.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "d", "f", "tests"]);
    assert_eq!(found[1].path.as_deref(), Some("x/y.rs"));
    assert_eq!(found[2].parents, ["c"]);
    assert_eq!(found[3].parents, ["../z"]);
    assert_eq!(found.iter().filter(|m| m.test).count(), 1);
}
