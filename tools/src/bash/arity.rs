//! How many words of a command say what it does: `git status`, `npm run dev`, `ls`. "Always" allows
//! those words with any arguments after them.

use super::wrappers::is_wrapper;

/// Sorted. The longest prefix of a command that stands here counts; what does not stand here is one
/// word long.
const ARITY: &[(&str, usize)] = &[
    ("ansible", 2),
    ("apk", 2),
    ("apt", 2),
    ("apt-cache", 2),
    ("apt-get", 2),
    ("aws", 3),
    ("az", 3),
    ("bazel", 2),
    ("brew", 2),
    ("bun", 2),
    ("bun run", 3),
    ("bun x", 3),
    ("bundle", 2),
    ("bundle exec", 3),
    ("bunx", 2),
    ("cabal", 2),
    ("cargo", 2),
    ("cargo nextest", 3),
    ("cargo run", 2),
    ("cmake", 1),
    ("code", 2),
    ("composer", 2),
    ("composer run", 3),
    ("conan", 2),
    ("conda", 2),
    ("conda env", 3),
    ("consul", 2),
    ("corepack", 2),
    ("crictl", 2),
    ("dart", 2),
    ("dart pub", 3),
    ("deno", 2),
    ("deno task", 3),
    ("direnv", 2),
    ("dnf", 2),
    ("docker", 2),
    ("docker builder", 3),
    ("docker compose", 3),
    ("docker container", 3),
    ("docker context", 3),
    ("docker image", 3),
    ("docker network", 3),
    ("docker system", 3),
    ("docker volume", 3),
    ("docker-compose", 2),
    ("doctl", 3),
    ("dotnet", 2),
    ("dotnet tool", 3),
    ("eksctl", 3),
    ("elixir", 2),
    ("fdroid", 2),
    ("firebase", 2),
    ("flatpak", 2),
    ("flutter", 2),
    ("flutter pub", 3),
    ("fly", 2),
    ("gcloud", 3),
    ("gem", 2),
    ("gh", 3),
    ("git", 2),
    ("git bisect", 3),
    ("git bundle", 3),
    ("git config", 3),
    ("git flow", 3),
    ("git lfs", 3),
    ("git notes", 3),
    ("git reflog", 3),
    ("git remote", 3),
    ("git sparse-checkout", 3),
    ("git stash", 3),
    ("git submodule", 3),
    ("git worktree", 3),
    ("glab", 3),
    ("go", 2),
    ("go mod", 3),
    ("go tool", 3),
    ("go work", 3),
    ("gradle", 2),
    ("hatch", 2),
    ("hatch env", 3),
    ("helm", 2),
    ("helm repo", 3),
    ("heroku", 2),
    ("hg", 2),
    ("ip", 2),
    ("jj", 2),
    ("journalctl", 1),
    ("just", 2),
    ("k3d", 3),
    ("kind", 3),
    ("kubectl", 2),
    ("kubectl config", 3),
    ("kubectl rollout", 3),
    ("launchctl", 2),
    ("lerna", 2),
    ("lua", 2),
    ("make", 2),
    ("meson", 2),
    ("minikube", 2),
    ("mise", 2),
    ("mix", 2),
    ("moon", 2),
    ("mvn", 2),
    ("netlify", 2),
    ("nix", 2),
    ("nix flake", 3),
    ("nix profile", 3),
    ("node", 2),
    ("npm", 2),
    ("npm exec", 3),
    ("npm run", 3),
    ("npm run-script", 3),
    ("npx", 2),
    ("nx", 2),
    ("nx run", 3),
    ("opam", 2),
    ("openssl", 2),
    ("pacman", 2),
    ("pdm", 2),
    ("pdm run", 3),
    ("perl", 2),
    ("php", 2),
    ("php artisan", 3),
    ("pip", 2),
    ("pip3", 2),
    ("pipenv", 2),
    ("pipenv run", 3),
    ("pipx", 2),
    ("pipx run", 3),
    ("pixi", 2),
    ("pixi run", 3),
    ("pnpm", 2),
    ("pnpm dlx", 3),
    ("pnpm exec", 3),
    ("pnpm run", 3),
    ("podman", 2),
    ("podman container", 3),
    ("podman image", 3),
    ("poetry", 2),
    ("poetry env", 3),
    ("poetry run", 3),
    ("prisma", 2),
    ("pulumi", 2),
    ("pulumi stack", 3),
    ("pyenv", 2),
    ("python", 2),
    ("python3", 2),
    ("rails", 2),
    ("rake", 2),
    ("rbenv", 2),
    ("rclone", 2),
    ("redis-cli", 2),
    ("ruby", 2),
    ("rush", 2),
    ("rustup", 2),
    ("rustup component", 3),
    ("rustup target", 3),
    ("rustup toolchain", 3),
    ("sbt", 2),
    ("serverless", 2),
    ("sfdx", 3),
    ("skaffold", 2),
    ("snap", 2),
    ("sqlite3", 2),
    ("ssh", 2),
    ("stack", 2),
    ("supabase", 2),
    ("svn", 2),
    ("swift", 2),
    ("swift package", 3),
    ("systemctl", 2),
    ("task", 2),
    ("terraform", 2),
    ("terraform state", 3),
    ("terraform workspace", 3),
    ("tmux", 2),
    ("tofu", 2),
    ("turbo", 2),
    ("turbo run", 3),
    ("ufw", 2),
    ("uv", 2),
    ("uv pip", 3),
    ("uv run", 3),
    ("uv tool", 3),
    ("uvx", 2),
    ("vagrant", 2),
    ("vault", 2),
    ("vault kv", 3),
    ("vercel", 2),
    ("volta", 2),
    ("wrangler", 2),
    ("yarn", 2),
    ("yarn dlx", 3),
    ("yarn run", 3),
    ("yarn workspace", 4),
    ("yum", 2),
    ("zig", 2),
    ("zypper", 2),
];

/// Programs that neither run others nor write files by an option or an argument, apart from the files that they name.
/// "Always" allows them with any arguments. For every other program it allows the line that was asked about.
const PLAIN: &str = "[ arch b2sum base32 basename basenc bzcat cal cat chattr chgrp chmod chown cksum clear cmp \
    colordiff column comm cp cut df diff diff3 dir dirname du echo egrep exit expand expr false fgrep fmt fold free \
    grep groups head hexdump hexyl hostname id join jq kill ln locale logname look ls lsblk lscpu lsof lspci lsusb \
    md5sum mkdir mkfifo mv nl nproc od paste pgrep popd pr printenv printf ps pushd pwd readlink realpath rev rm \
    rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shred sleep stat strings sum tac tail tee test touch \
    tr trash true truncate tsort tty type ul uname unexpand uptime users vmstat w wc which who whoami xzcat zcat \
    zgrep zstdcat";

/// Programs that "always" allows with any arguments after a subcommand. They run files of the project in any case.
const BUILDERS: &str = "cargo";

/// Programs that change texts, and may run others by an argument, which the judge finds.
const FILTERS: &str = "awk base64 gawk gunzip gzip sed sort tar uniq xxd";

/// Programs that reach other machines, and run no file of the project.
const CLIENTS: &str = "curl dig gh glab host nslookup ping traceroute wget whois";

/// Subcommands of git that reach other machines, and run no hook and no driver.
const GIT_CLIENTS: &str = "clone fetch ls-remote";

fn is_in(list: &str, name: &str) -> bool {
    list.split(' ').any(|known| known == name)
}

/// Whether "always" allows `name` only with the arguments that it has. A path may lead to a file of the project.
pub(super) fn is_exact(name: &str) -> bool {
    let installed = name.strip_prefix("/usr/bin/").or_else(|| name.strip_prefix("/bin/"));
    let name = installed.unwrap_or(name);
    !is_in(PLAIN, name) && !is_in(BUILDERS, name)
}

/// Whether a program is certain to run no file of the project with these arguments, apart from commands among them,
/// which are judged by themselves.
pub(super) fn runs_no_file(name: &str, arguments: &[String]) -> bool {
    let program = || is_in(PLAIN, name) || is_in(FILTERS, name) || is_in(CLIENTS, name);
    let asks_program = |text: &String| text.contains("askpass");
    match name {
        "git" => arguments.first().is_some_and(|name| is_in(GIT_CLIENTS, name)),
        "wget" => !arguments.iter().any(asks_program),
        name => program() || is_wrapper(name),
    }
}

/// How many words of `words`, at least one, say what it does. It may be more than there are.
pub(super) fn of(words: &[String]) -> usize {
    let longest = words.len().min(2);
    let known = |count: usize| {
        let start = words[..count].join(" ");
        ARITY
            .binary_search_by(|(prefix, _)| (*prefix).cmp(start.as_str()))
            .ok()
            .map(|at| ARITY[at].1)
    };
    (1..=longest).rev().find_map(known).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_long_enough() {
        assert!(ARITY.is_sorted_by(|a, b| a.0 < b.0));
        for list in [PLAIN, BUILDERS, FILTERS, CLIENTS, GIT_CLIENTS] {
            assert!(list.split(' ').is_sorted(), "{list}");
        }
        assert!(ARITY.len() >= 140, "{}", ARITY.len());
        assert!(ARITY.iter().all(|(prefix, count)| prefix.split(' ').count() <= *count));
        assert!(ARITY.iter().all(|(prefix, _)| !super::super::wrappers::wraps(prefix)));
        assert!(PLAIN.split(' ').all(|name| !super::super::wrappers::wraps(name)));
    }
}
