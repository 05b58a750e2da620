//! References among the source files of a crate, as far as paths name them.

mod reader;
pub mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::reader::{Module, Names, read};

/// The files that each file names.
pub type References = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// The modules of a crate, without those for tests.
#[derive(Default)]
pub struct Modules(BTreeMap<Names, Module>);

impl Modules {
    /// Reads a crate from its root, such as `lib.rs`.
    pub fn read(root: &Path) -> Modules {
        let mut modules = Modules::default();
        modules.read_file(root, root.parent().unwrap(), Names::new());
        modules
    }

    /// Reads a file. Those of the modules in it are in the folder.
    fn read_file(&mut self, file: &Path, folder: &Path, module: Names) {
        for child in read(file, &module, &mut self.0) {
            let nested = folder.join(child.last().unwrap());
            match nested.with_extension("rs") {
                flat if flat.exists() => self.read_file(&flat, &nested, child),
                _ => self.read_file(&nested.join("mod.rs"), &nested, child),
            }
        }
    }

    /// The files that each file names.
    pub fn references(&self) -> References {
        let mut references = References::new();
        for (name, module) in &self.0 {
            let items = module.uses().filter_map(|path| self.item(name, path, 0));
            let globs = module.globs.iter().filter_map(|path| self.module(name, path, 0));
            let files = items.chain(globs).map(|other| self.0[&other].file.clone());
            let own = references.entry(module.file.clone()).or_default();
            own.extend(files.filter(|file| *file != module.file));
        }
        references
    }

    /// The module that defines what a path in another one names; none for a module or an outside name.
    fn item(&self, from: &Names, path: &[String], depth: usize) -> Option<Names> {
        let (mut module, mut rest) = self.start(from, path, depth)?;
        while let Some((name, behind)) = rest.split_first() {
            let child = [&module[..], std::slice::from_ref(name)].concat();
            if !self.0.contains_key(&child) {
                return self.definer(module, name, behind, depth + 1);
            }
            (module, rest) = (child, behind);
        }
        None
    }

    /// The module that a path names.
    fn module(&self, from: &Names, path: &[String], depth: usize) -> Option<Names> {
        let (mut module, rest) = self.start(from, path, depth)?;
        module.extend_from_slice(rest);
        self.0.contains_key(&module).then_some(module)
    }

    /// The module where a path starts, and the names behind it.
    fn start<'a>(
        &self,
        from: &Names,
        path: &'a [String],
        depth: usize,
    ) -> Option<(Names, &'a [String])> {
        let (first, mut rest) = path.split_first()?;
        let child = [&from[..], std::slice::from_ref(first)].concat();
        let module = match first.as_str() {
            "crate" => Names::new(),
            "self" => from.clone(),
            "super" => {
                let mut module = from[..from.len().checked_sub(1)?].to_vec();
                while let Some(("super", behind)) = rest.split_first().map(|(a, b)| (a.as_str(), b))
                {
                    module.pop()?;
                    rest = behind;
                }
                module
            }
            _ if self.0.contains_key(&child) => child,
            name => {
                let path = self.0[from].imports.get(name).filter(|_| depth < 9)?;
                self.module(from, path, depth + 1)?
            }
        };
        Some((module, rest))
    }

    /// Follows imports of a name to the module that defines it.
    fn definer(&self, module: Names, name: &str, rest: &[String], depth: usize) -> Option<Names> {
        let own = &self.0[&module];
        if own.items.contains(name) || depth > 9 {
            return Some(module);
        }
        if let Some(path) = own.imports.get(name) {
            return self.item(&module, &[&path[..], rest].concat(), depth);
        }
        let globs = own.globs.iter().filter_map(|path| self.module(&module, path, depth));
        let mut found = globs.filter(|glob| self.0[glob].items.contains(name));
        found.next().or(Some(module))
    }
}

/// Sets of files that all reach each other.
pub fn circles(references: &References) -> Vec<BTreeSet<&PathBuf>> {
    let reached = |start: &PathBuf| {
        let mut reached: BTreeSet<&PathBuf> = BTreeSet::new();
        let mut open: Vec<&PathBuf> = references.get(start).into_iter().flatten().collect();
        while let Some(file) = open.pop() {
            if reached.insert(file) {
                open.extend(references.get(file).into_iter().flatten());
            }
        }
        reached
    };
    let reached: BTreeMap<&PathBuf, _> =
        references.keys().map(|file| (file, reached(file))).collect();
    let mut circles: Vec<BTreeSet<&PathBuf>> = Vec::new();
    for (file, others) in &reached {
        if others.contains(file) && !circles.iter().any(|circle| circle.contains(file)) {
            let is_back =
                |other: &&&PathBuf| reached.get(*other).is_some_and(|back| back.contains(file));
            circles.push(others.iter().filter(is_back).copied().collect());
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the files in each circle of a crate with these files.
    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, code) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, code).unwrap();
        }
        let references = Modules::read(&folder.path().join("lib.rs")).references();
        let name = |file: &&PathBuf| {
            file.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned()
        };
        let circles = circles(&references);
        circles.iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    #[test]
    fn files_that_name_each_other_in_any_way_are_a_circle() {
        let lib = "mod a; mod b; mod c;";
        for (a, b, c) in [
            ("use crate::b::B;", "use super::c::C;", "fn f() { crate::a::g() }"),
            ("use super::{b::{B, D as E}, c};", "use crate::c::*;", "type T = super::a::A;"),
            ("use crate::b; fn f() { b::g() }", "use crate::c::C;", "use crate::a::A;"),
        ] {
            let b = &format!("{b} pub struct B; pub struct D; pub fn g() {{}}");
            let files = [("lib.rs", lib), ("a.rs", a), ("b.rs", b), ("c.rs", c)];
            assert_eq!(circles_of(&files), [["a.rs", "b.rs", "c.rs"]], "{a} {b} {c}");
        }
    }

    #[test]
    fn a_name_counts_where_it_is_defined_and_not_where_it_is_passed_on() {
        let top = "mod low; mod high; pub use low::Low; pub use high::*;";
        let low = "use crate::top::High; pub struct Low;";
        let high = "use super::Low; pub struct High;";
        let files =
            [("lib.rs", "mod top;"), ("top.rs", top), ("top/low.rs", low), ("top/high.rs", high)];
        assert_eq!(circles_of(&files), [["top/high.rs", "top/low.rs"]]);
    }

    #[test]
    fn comments_texts_and_tests_name_nothing() {
        let a = "// use crate::b::B;\nconst A: &str = \"crate::b::B\"; const C: char = '\"';\n\
                 #[cfg(test)]\nmod tests { use crate::b::B; }\n#[cfg(test)]\nmod more;";
        let b = "use crate::a::A; const RAW: &str = r#\"\"crate::b\"#; pub struct B<'a>(&'a u8);";
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)];
        assert!(circles_of(&files).is_empty());
        let named = format!("{a} fn f(b: crate::b::B) {{}}");
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", &named), ("b.rs", b)];
        assert_eq!(circles_of(&files), [["a.rs", "b.rs"]]);
    }
}
