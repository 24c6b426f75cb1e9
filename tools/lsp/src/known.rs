//! The servers that Leftfold knows, with the names, files and root markers that OpenCode gives them. None is ever
//! downloaded: one that is not installed is not used.

use std::path::Path;

use serde_json::{Value, json};

use crate::spec::Roots;

/// A server that Leftfold knows.
#[derive(Debug)]
pub struct KnownServer {
    pub id: &'static str,
    pub extensions: &'static [&'static str],
    pub roots: Roots,
    /// Programs with their arguments; the first that is installed is used.
    commands: &'static [&'static [&'static str]],
}

const LOCKS: &[&str] =
    &["package-lock.json", "bun.lockb", "bun.lock", "pnpm-lock.yaml", "yarn.lock"];

const SCRIPTS: &[&str] = &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"];

const PYTHON: &[&str] = &[
    "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "pyrightconfig.json",
];

const ANYWHERE: Roots = Roots { markers: &[], unless: &[], needs_marker: false, is_cargo: false };

const fn marked(markers: &'static [&'static [&'static str]]) -> Roots {
    Roots { markers, ..ANYWHERE }
}

const fn server(
    id: &'static str,
    extensions: &'static [&'static str],
    commands: &'static [&'static [&'static str]],
    roots: Roots,
) -> KnownServer {
    KnownServer { id, extensions, roots, commands }
}

static ALL: &[KnownServer] = &[
    server(
        "deno",
        &[".ts", ".tsx", ".js", ".jsx", ".mjs"],
        &[&["deno", "lsp"]],
        Roots { needs_marker: true, ..marked(&[&["deno.json", "deno.jsonc"]]) },
    ),
    server(
        "typescript",
        SCRIPTS,
        &[&["typescript-language-server", "--stdio"]],
        Roots { unless: &["deno.json", "deno.jsonc"], ..marked(&[LOCKS]) },
    ),
    server("vue", &[".vue"], &[&["vue-language-server", "--stdio"]], marked(&[LOCKS])),
    server(
        "biome",
        &[
            ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".jsonc",
            ".vue", ".astro", ".svelte", ".css", ".graphql", ".gql", ".html",
        ],
        &[&["biome", "lsp-proxy", "--stdio"]],
        marked(&[&[
            "biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc", "package-lock.json",
            "bun.lockb", "bun.lock", "pnpm-lock.yaml", "yarn.lock",
        ]]),
    ),
    server("gopls", &[".go"], &[&["gopls"]], marked(&[&["go.work"], &["go.mod", "go.sum"]])),
    server(
        "ruby-lsp",
        &[".rb", ".rake", ".gemspec", ".ru"],
        &[&["rubocop", "--lsp"]],
        marked(&[&["Gemfile"]]),
    ),
    server(
        "pyright",
        &[".py", ".pyi"],
        &[&["pyright-langserver", "--stdio"], &["basedpyright-langserver", "--stdio"]],
        marked(&[PYTHON]),
    ),
    server(
        "elixir-ls",
        &[".ex", ".exs"],
        &[&["elixir-ls"], &["language_server.sh"]],
        marked(&[&["mix.exs", "mix.lock"]]),
    ),
    server("zls", &[".zig", ".zon"], &[&["zls"]], marked(&[&["build.zig"]])),
    server(
        "csharp",
        &[".cs", ".csx"],
        &[&["roslyn-language-server", "--stdio", "--autoLoadProjects"]],
        marked(&[&["*.slnx", "*.sln", "*.csproj", "global.json"]]),
    ),
    server(
        "fsharp",
        &[".fs", ".fsi", ".fsx", ".fsscript"],
        &[&["fsautocomplete"]],
        marked(&[&["*.slnx", "*.sln", "*.fsproj", "global.json"]]),
    ),
    server(
        "sourcekit-lsp",
        &[".swift", ".objc", ".objcpp"],
        &[&["sourcekit-lsp"]],
        marked(&[&["Package.swift", "*.xcodeproj", "*.xcworkspace"]]),
    ),
    server(
        "rust",
        &[".rs"],
        &[&["rust-analyzer"]],
        Roots { is_cargo: true, ..marked(&[&["Cargo.toml", "Cargo.lock"]]) },
    ),
    server(
        "clangd",
        &[".c", ".cpp", ".cc", ".cxx", ".c++", ".h", ".hpp", ".hh", ".hxx", ".h++"],
        &[&["clangd", "--background-index", "--clang-tidy"]],
        marked(&[&["compile_commands.json", "compile_flags.txt", ".clangd"]]),
    ),
    server("svelte", &[".svelte"], &[&["svelteserver", "--stdio"]], marked(&[LOCKS])),
    server("astro", &[".astro"], &[&["astro-ls", "--stdio"]], marked(&[LOCKS])),
    server(
        "jdtls",
        &[".java"],
        &[&["jdtls"]],
        Roots {
            needs_marker: true,
            ..marked(&[
                &["settings.gradle", "settings.gradle.kts"],
                &["gradlew", "gradlew.bat"],
                &["build.gradle", "build.gradle.kts"],
                &["pom.xml"],
                &[".project", ".classpath"],
            ])
        },
    ),
    server(
        "kotlin-ls",
        &[".kt", ".kts"],
        &[&["kotlin-lsp", "--stdio"]],
        marked(&[
            &["settings.gradle.kts", "settings.gradle"],
            &["gradlew", "gradlew.bat"],
            &["build.gradle.kts", "build.gradle"],
            &["pom.xml"],
        ]),
    ),
    server(
        "yaml-ls",
        &[".yaml", ".yml"],
        &[&["yaml-language-server", "--stdio"]],
        marked(&[LOCKS]),
    ),
    server(
        "lua-ls",
        &[".lua"],
        &[&["lua-language-server"]],
        marked(&[&[
            ".luarc.json", ".luarc.jsonc", ".luacheckrc", ".stylua.toml", "stylua.toml",
            "selene.toml", "selene.yml",
        ]]),
    ),
    server(
        "php intelephense",
        &[".php"],
        &[&["intelephense", "--stdio"]],
        marked(&[&["composer.json", "composer.lock", ".php-version"]]),
    ),
    server(
        "prisma",
        &[".prisma"],
        &[&["prisma", "language-server"]],
        Roots {
            unless: &["package.json"],
            ..marked(&[&["schema.prisma", "prisma/schema.prisma", "prisma"]])
        },
    ),
    server(
        "dart",
        &[".dart"],
        &[&["dart", "language-server", "--lsp"]],
        marked(&[&["pubspec.yaml", "analysis_options.yaml"]]),
    ),
    server(
        "ocaml-lsp",
        &[".ml", ".mli"],
        &[&["ocamllsp"]],
        marked(&[&["dune-project", "dune-workspace", ".merlin", "opam"]]),
    ),
    server(
        "bash",
        &[".sh", ".bash", ".zsh", ".ksh"],
        &[&["bash-language-server", "start"]],
        ANYWHERE,
    ),
    server(
        "terraform",
        &[".tf", ".tfvars"],
        &[&["terraform-ls", "serve"]],
        marked(&[&[".terraform.lock.hcl", "terraform.tfstate", "*.tf"]]),
    ),
    server(
        "texlab",
        &[".tex", ".bib"],
        &[&["texlab"]],
        marked(&[&[".latexmkrc", "latexmkrc", ".texlabroot", "texlabroot"]]),
    ),
    server(
        "dockerfile",
        &[".dockerfile", "Dockerfile"],
        &[&["docker-langserver", "--stdio"]],
        ANYWHERE,
    ),
    server("gleam", &[".gleam"], &[&["gleam", "lsp"]], marked(&[&["gleam.toml"]])),
    server(
        "clojure-lsp",
        &[".clj", ".cljs", ".cljc", ".edn"],
        &[&["clojure-lsp", "listen"]],
        marked(&[&["deps.edn", "project.clj", "shadow-cljs.edn", "bb.edn", "build.boot"]]),
    ),
    server("nixd", &[".nix"], &[&["nixd"]], marked(&[&["flake.nix"]])),
    server("tinymist", &[".typ", ".typc"], &[&["tinymist"]], marked(&[&["typst.toml"]])),
    server(
        "haskell-language-server",
        &[".hs", ".lhs"],
        &[&["haskell-language-server-wrapper", "--lsp"]],
        marked(&[&["stack.yaml", "cabal.project", "hie.yaml", "*.cabal"]]),
    ),
    server(
        "julials",
        &[".jl"],
        &[&[
            "julia", "--startup-file=no", "--history-file=no", "-e",
            "using LanguageServer; runserver()",
        ]],
        marked(&[&["Project.toml", "Manifest.toml", "*.jl"]]),
    ),
];

impl KnownServer {
    pub fn all() -> impl Iterator<Item = &'static Self> {
        ALL.iter()
    }

    /// The program and its arguments. A program of the project's `node_modules` comes before one in `PATH`. `None`: none
    /// is installed. `trusted` says whether programs of the project may run.
    pub fn command(&self, directory: &Path, worktree: &Path, trusted: bool) -> Option<Vec<String>> {
        let found = |name: &str| {
            let folders = directory.ancestors().take_while(|folder| folder.starts_with(worktree));
            let mut bins = folders.map(|folder| folder.join("node_modules/.bin").join(name));
            let local = bins.find(|path| trusted && path.is_file());
            let local = local.and_then(|path| path.to_str().map(str::to_owned));
            local.or_else(|| leftfold_tools::installed_program(name, directory, trusted, worktree))
        };
        self.commands.iter().find_map(|command| {
            let (name, arguments) = command.split_first()?;
            let arguments = arguments.iter().map(|word| (*word).to_owned());
            Some(std::iter::once(found(name)?).chain(arguments).collect())
        })
    }

    /// The programs that it may have, for people.
    pub fn programs(&self) -> String {
        let names: Vec<&str> =
            self.commands.iter().filter_map(|command| command.first().copied()).collect();
        names.join(" or ")
    }

    /// The options for this project.
    pub fn initialization(&self, directory: &Path) -> Value {
        match self.id {
            "pyright" => {
                let pythons = [".venv", "venv"].map(|name| directory.join(name).join("bin/python"));
                let python = pythons.into_iter().find(|path| path.is_file());
                python.map_or(Value::Null, |python| json!({ "python": { "pythonPath": python } }))
            }
            "php intelephense" => json!({ "telemetry": { "enabled": false } }),
            _ => Value::Null,
        }
    }
}
