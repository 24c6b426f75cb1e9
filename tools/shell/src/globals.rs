//! Options that stand before a subcommand. `git -C sub push` is `git push` to a rule.

use crate::arity;

/// Programs with options before their subcommands: which of these take a value as a word of its own, and which none. An
/// option that is in neither list may or may not.
struct Globals {
    programs: &'static str,
    valued: &'static str,
    flags: &'static str,
}

const GLOBALS: &[Globals] = &[
    Globals {
        programs: "git",
        valued: "-C -c --git-dir --work-tree --namespace --attr-source --config-env --super-prefix",
        flags: "-P -p --no-pager --paginate --bare --no-replace-objects --no-lazy-fetch --no-advice --no-optional-locks \
            --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --exec-path",
    },
    Globals {
        programs: "crictl docker docker-compose podman",
        valued: "-H -c -f -l -p --host --context --config --log-level --file --project-name --profile --env-file \
            --project-directory --ansi --parallel --progress --url --connection --tlscacert --tlscert --tlskey",
        flags: "-D --tls --tlsverify --compatibility --all-resources --remote",
    },
    Globals {
        programs: "helm kind kubectl minikube oc skaffold",
        valued: "-n -s -p --namespace --context --cluster --kubeconfig --user --server --token --as --as-group \
            --as-uid --request-timeout --cache-dir --profile --kube-context --tls-server-name",
        flags: "--insecure-skip-tls-verify --match-server-version --warnings-as-errors",
    },
    Globals {
        programs: "bun npm pnpm yarn",
        valued: "-C -w -F --prefix --dir --workspace --filter --cwd --registry --loglevel --userconfig --cache",
        flags: "-s -g -r -ws --global --recursive --workspaces --no-audit --offline --if-present --parallel",
    },
    Globals {
        programs: "cargo rustup",
        valued: "-C -Z --config --color",
        flags: "--locked --offline --frozen",
    },
    Globals {
        programs: "aws",
        valued: "--profile --region --endpoint-url --output --query --color --ca-bundle --cli-read-timeout \
            --cli-connect-timeout --cli-binary-format",
        flags: "--no-verify-ssl --no-paginate --no-sign-request --no-cli-pager --no-cli-auto-prompt",
    },
    Globals {
        programs: "az gcloud",
        valued: "--project --account --configuration --format --verbosity --impersonate-service-account \
            --billing-project --access-token-file --flags-file --subscription --output --query",
        flags: "",
    },
    Globals {
        programs: "make",
        valued: "-C -E -I -W -f -o --directory --file --makefile --include-dir --old-file --what-if --eval",
        flags: "-B -S -e -i -j -k -n -s -t -w",
    },
    Globals {
        programs: "systemctl",
        valued: "-H -M -P -n -o -p -s -t --host --machine --type --state --property --output --lines --root --signal",
        flags: "-a -f -l -r --user --system --now --global --no-block --force --all --full",
    },
    Globals {
        programs: "pip pip3",
        valued: "--proxy --retries --timeout --python --cache-dir --log --cert --client-cert --trusted-host \
            --exists-action",
        flags: "--isolated --no-input --require-virtualenv --no-cache-dir --disable-pip-version-check",
    },
    Globals { programs: "gh glab", valued: "-R --repo --hostname", flags: "" },
    Globals { programs: "go", valued: "-C", flags: "" },
    Globals {
        programs: "hg jj svn",
        valued: "-R --repository --cwd --config --at-op --at-operation --color",
        flags: "--ignore-working-copy --ignore-immutable",
    },
    Globals {
        programs: "apk apt apt-get dnf pacman yum zypper",
        valued: "-o -c -t -p --option --config-file --target-release --root --repository",
        flags: "-u -d -S --no-cache --no-install-recommends",
    },
];

/// Options of many programs that take no value.
const FLAGS: &str = "-h -q -v -y --debug --dry-run --help --json --no-color --no-pager --quiet --silent --verbose \
    --version --yes";

/// Programs whose first operand is a file, a host or a text.
const WITHOUT_SUBCOMMANDS: &str = "bunx code elixir lua node npx openssl perl php pipx python python3 redis-cli ruby \
    sqlite3 ssh uvx";

/// Most ways to read the options of one command.
const MAX_READINGS: usize = 64;

fn is_in(list: &str, name: &str) -> bool {
    list.split(' ').any(|known| known == name)
}

/// The command `name` with the arguments `words`, without the options before its subcommand, in each way to read them. The
/// flag says whether these are all.
pub(crate) fn without(name: &str, words: &[String]) -> (Vec<Vec<String>>, bool) {
    let start = vec![name.to_owned()];
    if arity::for_words(&start) < 2 || is_in(WITHOUT_SUBCOMMANDS, name) {
        return (Vec::new(), true);
    }
    let globals = GLOBALS.iter().find(|globals| is_in(globals.programs, name));
    let (mut found, mut waiting, mut looked) = (Vec::new(), vec![(0, start)], 0);
    while let Some((mut at, mut chosen)) = waiting.pop() {
        looked += 1;
        if looked > MAX_READINGS {
            return (found, false);
        }
        while chosen.len() < arity::for_words(&chosen)
            && let Some(word) = words.get(at)
        {
            at += 1;
            match reading(name, word, globals) {
                Reading::Operand => chosen.push(word.clone()),
                Reading::Skipped => {}
                Reading::Valued => at += 1,
                Reading::Perhaps => waiting.push((at + 1, chosen.clone())),
                Reading::Unknown => {
                    waiting.push((at, chosen.clone()));
                    chosen.push(word.clone());
                }
            }
        }
        if chosen.len() > 1 {
            chosen.extend(words.iter().skip(at).cloned());
            if !found.contains(&chosen) {
                found.push(chosen);
            }
        }
    }
    (found, true)
}

/// The meaning of a word before the subcommand.
enum Reading {
    Operand,
    /// An option with its value, if it has one.
    Skipped,
    /// An option whose value is the next word.
    Valued,
    /// An option whose value may be the next word.
    Perhaps,
    /// A value that is not known: the subcommand, or options.
    Unknown,
}

fn reading(name: &str, word: &str, globals: Option<&Globals>) -> Reading {
    let (valued, flags) = globals.map_or(("", ""), |globals| (globals.valued, globals.flags));
    let is_flag = |option: &str| is_in(flags, option) || is_in(FLAGS, option);
    let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let is_assignment = name == "make" && word.contains('=');
    let is_toolchain = matches!(name, "cargo" | "rustup") && word.starts_with('+');
    if is_assignment || is_toolchain {
        return Reading::Skipped;
    }
    if word.starts_with(['$', '`', '<']) || word.starts_with("\"$") {
        return Reading::Unknown;
    }
    let Some(rest) = word.strip_prefix('-') else { return Reading::Operand };
    if is_in(valued, word) {
        return Reading::Valued;
    }
    let glued = |letters: &str| {
        let first = letters.chars().next().map(|c| format!("-{c}"));
        let behind = letters.get(1..).unwrap_or_default();
        let is_number = !behind.is_empty() && behind.bytes().all(|byte| byte.is_ascii_digit());
        let all_flags = letters.chars().all(|c| is_flag(&format!("-{c}")));
        first.is_some_and(|first| is_in(valued, &first)) || is_number || all_flags
    };
    let is_whole = rest.contains('=') || is_flag(word) || word == "--" || short.is_some_and(glued);
    if is_whole { Reading::Skipped } else { Reading::Perhaps }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subcommand_is_found_behind_options() {
        for (line, expected) in [
            ("git push x", &["git push x"][..]),
            ("git push -f x", &["git push -f x"]),
            ("git -C . push x", &["git push x"]),
            ("git -C. push", &["git push"]),
            ("git --no-pager -P --no-optional-locks --literal-pathspecs push", &["git push"]),
            ("git -c a=b --git-dir x --work-tree=y push -f", &["git push -f"]),
            ("git --new-option push x", &["git push x", "git x"]),
            ("git $x push", &["git $x push", "git push"]),
            ("git -C x", &[]),
            ("docker --context x rm y", &["docker rm y"]),
            ("docker compose -f a.yml down", &["docker compose down"]),
            ("docker -H x compose -p y down -v", &["docker compose down -v"]),
            ("kubectl -n x delete pod y", &["kubectl delete pod y"]),
            ("npm --prefix web -s publish", &["npm publish"]),
            ("cargo +nightly --config x publish", &["cargo publish"]),
            ("aws --profile x s3 --region y rm z", &["aws s3 rm z"]),
            (
                "gcloud --project x compute --quiet instances delete y",
                &["gcloud compute instances delete y"],
            ),
            ("terraform -chdir=x destroy", &["terraform destroy"]),
            ("make -C x A=1 -j4 deploy", &["make deploy"]),
            ("systemctl --user -H x stop y", &["systemctl stop y"]),
            ("go -C x run y", &["go run y"]),
            ("pip --proxy x install y", &["pip install y"]),
            ("python -u x.py", &[]),
            ("ls -l x", &[]),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (found, whole) = without(&words[0], &words[1..]);
            let found: Vec<String> = found.iter().map(|words| words.join(" ")).collect();
            assert_eq!(
                (found, whole),
                (expected.iter().map(|it| (*it).to_owned()).collect(), true),
                "{line}"
            );
        }
        let many: Vec<String> = (0..10).map(|n| format!("--x{n}")).chain(["a".into()]).collect();
        assert!(!without("git", &many).1);
    }
}
