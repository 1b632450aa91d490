//! No files of a crate import each other in a cycle, so that each can be read after the files that it uses.
//!
//! A path leads to the file that defines what it names, also through the `use` of another file. A module may use its
//! own submodules, and they may use their parent: together they are one topic.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{imports, paths};
use super::{rust_files, verdict, without_comments, word};

/// The longest chain of re-exports that is followed.
const MAX_IMPORTS: usize = 8;

type Module = Vec<String>;

struct File {
    path: String,
    /// Paths of this crate that it uses.
    used: Vec<String>,
    /// What its `use` makes visible, by name.
    imported: BTreeMap<String, String>,
}

/// The files of a crate by their modules. The root has no name.
struct Sources(BTreeMap<Module, File>);

impl Sources {
    fn new(files: &[(&str, &str)]) -> Self {
        let (mut sources, mut tests) = (BTreeMap::new(), BTreeSet::new());
        for &(path, text) in files {
            let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if ["lib.rs", "main.rs"].contains(&path) || path.ends_with("/mod.rs") {
                module.pop();
            }
            let (code, declared) = without_tests(&without_comments(text));
            tests.extend(declared.into_iter().map(|name| [module.clone(), vec![name]].concat()));
            let used = ["crate", "super"].map(|start| {
                let rests = paths(&code, &format!("{start}::"));
                rests.into_iter().map(move |rest| format!("{start}::{rest}"))
            });
            let used = used.into_iter().flatten().collect();
            sources.insert(module, File { path: path.to_owned(), used, imported: imports(&code) });
        }
        sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self(sources)
    }

    /// The module that defines what a path names, if it is in this crate. Follows at most `depth` imports.
    fn definition(&self, from: &[String], path: &str, depth: usize) -> Option<Module> {
        let names: Vec<_> = path.split("::").collect();
        let is_module = |at: &[String], name: &str| self.0.contains_key(&[at, &[name.to_owned()]].concat());
        let mut at = from.to_vec();
        match names[0] {
            "crate" => at.clear(),
            "super" | "self" => {}
            name if is_module(from, name) => {}
            _ => return None,
        }
        for (i, name) in names.iter().enumerate() {
            match *name {
                "crate" | "self" => {}
                "super" => drop(at.pop()),
                name if is_module(&at, name) => at.push(name.to_owned()),
                name => {
                    let imported = self.0.get(&at).and_then(|file| file.imported.get(name)).filter(|_| depth > 0);
                    let Some(imported) = imported else { break };
                    let path = [&[imported.as_str()], &names[i + 1..]].concat().join("::");
                    return self.definition(&at, &path, depth - 1);
                }
            }
        }
        Some(at)
    }

    /// The modules outside its own topic that a module uses, with a path that names something of each.
    fn used_by<'a>(&'a self, from: &Module) -> BTreeMap<Module, &'a str> {
        let parent = from.split_last().map(|(_, parent)| parent);
        let used = self.0[from].used.iter();
        let used = used.filter_map(|path| Some((self.definition(from, path, MAX_IMPORTS)?, path.as_str())));
        used.filter(|(to, _)| !to.starts_with(from) && Some(to.as_slice()) != parent).collect()
    }

    /// The imports between files that lie on a cycle.
    fn circular(&self) -> (usize, Vec<String>) {
        let uses: BTreeMap<_, _> = self.0.keys().map(|from| (from, self.used_by(from))).collect();
        let mut circular = Vec::new();
        for (from, used) in &uses {
            for (to, path) in used {
                let (mut reached, mut open) = (BTreeSet::from([to]), vec![to]);
                while let Some(module) = open.pop() {
                    open.extend(uses.get(module).into_iter().flat_map(BTreeMap::keys).filter(|to| reached.insert(to)));
                }
                if reached.contains(from) {
                    circular.push(format!("{} takes {path} from {}", self.0[*from].path, self.0[to].path));
                }
            }
        }
        (uses.values().map(BTreeMap::len).sum(), circular)
    }
}

/// The code without its modules for tests, and the names of those in files of their own.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut parts = code.split("#[cfg(test)]\nmod ");
    let (mut kept, mut declared) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
    for part in parts {
        let name = word(part);
        if part[name.len()..].starts_with(';') {
            declared.push(name.to_owned());
            kept.push_str(part);
        } else {
            kept.push_str(part.split_once("\n}").map_or("", |(_, after)| after));
        }
    }
    (kept, declared)
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let files: Vec<_> = rust_files().collect();
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in &files {
        if let Some((name, path)) = path.split_once("/src/") {
            crates.entry(name).or_default().push((path, text));
        }
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, files) in crates {
        let (checked, circular) = Sources::new(&files).circular();
        seen += checked;
        wrong.extend(circular.into_iter().map(|import| format!("{name}: {import}")));
    }
    verdict("imports between files in a cycle", seen, 900, &wrong);
}

#[test]
fn cycles_are_found_through_imports_of_others_and_not_in_tests() {
    let own_parent_and_children = ("a/mod.rs", "pub use b::B;\nmod b;\nmod c;\nuse self::c::C;\nstruct A;");
    let b = ("a/b.rs", "use super::A;\nuse super::c;\nstruct B;");
    let in_tests = ("a/c.rs", "struct C;\n#[cfg(test)]\nmod tests {\n    use crate::a::b::B;\n}");
    let none = [own_parent_and_children, b, in_tests, ("d.rs", "fn d(b: crate::a::B) {}")];
    assert_eq!(Sources::new(&none).circular(), (2, vec![]));
    let cycle = [own_parent_and_children, b, ("a/c.rs", "use crate::d;"), none[3]];
    let found =
        ["a/b.rs takes super::c from a/c.rs", "a/c.rs takes crate::d from d.rs", "d.rs takes crate::a::B from a/b.rs"];
    assert_eq!(Sources::new(&cycle).circular(), (3, found.map(str::to_owned).to_vec()));
}
