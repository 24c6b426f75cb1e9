//! The language of a file by its name, with the identifiers of the protocol.

use std::path::Path;

/// The identifiers, each with the ends of names that it is for.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("astro", &["astro"]),
    ("bibtex", &["bib", "bibtex"]),
    ("c", &["c", "h"]),
    ("clojure", &["clj", "cljs", "cljc", "edn"]),
    ("cpp", &["cpp", "cxx", "cc", "c++", "hpp", "hh", "hxx", "h++"]),
    ("csharp", &["cs", "csx"]),
    ("css", &["css"]),
    ("dart", &["dart"]),
    ("dockerfile", &["dockerfile"]),
    ("elixir", &["ex", "exs"]),
    ("erlang", &["erl", "hrl"]),
    ("fsharp", &["fs", "fsi", "fsx", "fsscript"]),
    ("gleam", &["gleam"]),
    ("go", &["go"]),
    ("graphql", &["graphql", "gql"]),
    ("haskell", &["hs", "lhs"]),
    ("html", &["html", "htm"]),
    ("java", &["java"]),
    ("javascript", &["js", "mjs", "cjs"]),
    ("javascriptreact", &["jsx"]),
    ("json", &["json"]),
    ("jsonc", &["jsonc"]),
    ("julia", &["jl"]),
    ("kotlin", &["kt", "kts"]),
    ("latex", &["tex"]),
    ("less", &["less"]),
    ("lua", &["lua"]),
    ("markdown", &["md", "markdown"]),
    ("nix", &["nix"]),
    ("objective-c", &["m", "objc"]),
    ("objective-cpp", &["mm", "objcpp"]),
    ("ocaml", &["ml", "mli"]),
    ("perl", &["pl", "pm"]),
    ("php", &["php"]),
    ("prisma", &["prisma"]),
    ("python", &["py", "pyi"]),
    ("r", &["r", "R"]),
    ("ruby", &["rb", "rake", "gemspec", "ru"]),
    ("rust", &["rs"]),
    ("scala", &["scala"]),
    ("scss", &["scss"]),
    ("shellscript", &["sh", "bash", "zsh", "ksh"]),
    ("sql", &["sql"]),
    ("svelte", &["svelte"]),
    ("swift", &["swift"]),
    ("terraform", &["tf"]),
    ("terraform-vars", &["tfvars"]),
    ("typescript", &["ts", "mts", "cts"]),
    ("typescriptreact", &["tsx"]),
    ("typst", &["typ", "typc"]),
    ("vue", &["vue"]),
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
    known.map_or("plaintext", |(language, _)| language)
}
