//! The language of a file by its name, with the identifiers of the protocol.

use std::path::Path;

/// The identifiers that are also the only ends of names that they are for.
const LIKE_THEIR_ENDS: &[&str] = &[
    "astro", "css", "dart", "dockerfile", "gleam", "go", "java", "json", "jsonc", "less", "lua",
    "nix", "php", "prisma", "scala", "scss", "sql", "svelte", "swift", "vue",
];

/// The other identifiers, each with the ends of names that it is for.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("bibtex", &["bib", "bibtex"]),
    ("c", &["c", "h"]),
    ("clojure", &["clj", "cljs", "cljc", "edn"]),
    ("cpp", &["cpp", "cxx", "cc", "c++", "hpp", "hh", "hxx", "h++"]),
    ("csharp", &["cs", "csx"]),
    ("elixir", &["ex", "exs"]),
    ("erlang", &["erl", "hrl"]),
    ("fsharp", &["fs", "fsi", "fsx", "fsscript"]),
    ("graphql", &["graphql", "gql"]),
    ("haskell", &["hs", "lhs"]),
    ("html", &["html", "htm"]),
    ("javascript", &["js", "mjs", "cjs"]),
    ("javascriptreact", &["jsx"]),
    ("julia", &["jl"]),
    ("kotlin", &["kt", "kts"]),
    ("latex", &["tex"]),
    ("markdown", &["md", "markdown"]),
    ("objective-c", &["m", "objc"]),
    ("objective-cpp", &["mm", "objcpp"]),
    ("ocaml", &["ml", "mli"]),
    ("perl", &["pl", "pm"]),
    ("python", &["py", "pyi"]),
    ("r", &["r", "R"]),
    ("ruby", &["rb", "rake", "gemspec", "ru"]),
    ("rust", &["rs"]),
    ("shellscript", &["sh", "bash", "zsh", "ksh"]),
    ("terraform", &["tf"]),
    ("terraform-vars", &["tfvars"]),
    ("typescript", &["ts", "mts", "cts"]),
    ("typescriptreact", &["tsx"]),
    ("typst", &["typ", "typc"]),
    ("xml", &["xml", "xsl"]),
    ("yaml", &["yaml", "yml"]),
    ("zig", &["zig", "zon"]),
];

/// The identifier of the language of this file.
pub(crate) fn for_path(path: &Path) -> &'static str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        "Dockerfile" => return "dockerfile",
        "Makefile" | "makefile" => return "makefile",
        _ => {}
    }
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let known = LANGUAGES.iter().find(|(_, ends)| ends.contains(&end));
    let alike = LIKE_THEIR_ENDS.iter().find(|language| **language == end);
    known.map(|(language, _)| language).or(alike).copied().unwrap_or("plaintext")
}
