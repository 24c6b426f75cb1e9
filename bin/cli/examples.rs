//! Examples and exit codes at the end of the help of the main commands.

pub(super) const LEFTFOLD: &str = "\
Examples:
  leftfold                                a conversation in this folder
  leftfold \"Why does the test fail?\"      a conversation that begins with a prompt
  leftfold @plan.md \"Do the first step.\"  with a file
  leftfold --continue                     the latest session of this project
  leftfold -c \"Now repair it.\"           the latest session, with another prompt
  git diff | leftfold run \"Review this\"   one prompt, then exit

`leftfold COMMAND --help` describes a command.";

pub(super) const RUN: &str = "\
Examples:
  leftfold run \"Why does the test fail?\"
  git diff | leftfold run \"Review this\"
  leftfold run --continue \"Now repair it.\"
  leftfold run --file error.png \"What is wrong here?\"
  leftfold run --permission-mode accept-edits --max-cost 0.50 --timeout 10m \"Repair it.\"
  leftfold run --format json \"Run the tests.\" | tail -n 1

Exit codes:
  0 completed   1 error   2 bad usage or settings   3 blocked: a call was rejected
  4 a limit of steps, cost or time was reached      5 incomplete answer   130 interrupted
  With --fail-on-denied also 3: completed, but calls were denied";

pub(super) const EXECUTOR: &str = "\
Example:
  leftfold executor --listen 0.0.0.0:7443 --tls-cert cert.pem --tls-key key.pem --token-file token --workspace /work

A node names it in its settings, and works there with `leftfold run --executor build \"...\"`:
  { \"executors\": { \"build\": { \"address\": \"build.internal:7443\", \"token\": \"{env:BUILD_TOKEN}\", \"ca\": \"ca.pem\" } } }";

pub(super) const FLEET: &str = "\
Examples:
  leftfold fleet init postgresql://ann@db.example/logs
  leftfold fleet import ~/.local/share/leftfold --store postgresql://ann@db.example/logs
  leftfold fleet status postgresql://ann@db.example/logs
  leftfold fleet drain 3f0c postgresql://ann@db.example/logs
  LEFTFOLD_STORE=postgresql://ann@db.example/logs leftfold run \"Why does the test fail?\"

The password comes from the URL, PGPASSWORD or ~/.pgpass, and is not stored.";

pub(super) const FORK: &str = "\
Examples:
  leftfold fork last                      prints the id of the new session
  leftfold fork last --at 46 \"Go on.\"     goes on differently after event 46
  leftfold fork last --at 46 --files      with the files as they were there";

pub(super) const REPLAY: &str = "\
Examples:
  leftfold replay last
  leftfold replay last --tool edit
  leftfold replay last --type 'permission.*'
  leftfold replay last --at 40 --state";

pub(super) const WHY: &str = "\
Examples:
  leftfold why                            what went wrong in the latest run of this project
  leftfold why 01M837GDE0FC               another session
  leftfold explain 01M837GDE0FC 59        what led to an event that `why` names";

pub(super) const EXPLAIN: &str = "\
Examples:
  leftfold explain last 59                what the request at event 59 consists of
  leftfold explain last 59 --request      the request itself
  leftfold explain last 58                why event 58 happened";

pub(super) const DIFF: &str = "\
Examples:
  leftfold diff last                      every change of the session to files
  leftfold diff last --turn 2 --stat      the files that its second turn changed
  leftfold diff last 01M837GDE0FC         where two sessions part

Exit codes:
  0 complete, or equal sessions   1 changes may be missing, or the sessions differ   2 bad usage";

pub(super) const OBSERVE: &str = "\
Examples:
  leftfold observe last                   catches up, then follows live
  leftfold observe last --until-idle      catches up, and ends with the turn
  leftfold observe last --from now --type 'tool.*'
  leftfold observe --all --format json";

pub(super) const SESSIONS: &str = "\
Examples:
  leftfold sessions --project             those of this project
  leftfold sessions list -n 5 --format json
  leftfold sessions show last
  leftfold sessions rm 01M837GDE0FC
  leftfold sessions prune --older-than 30 --dry-run";

pub(super) const PERMISSION: &str = "\
Examples:
  leftfold permission check bash 'git push'
  leftfold permission list
  leftfold permission answer last 54 once";

pub(super) const AUTH: &str = "\
Examples:
  leftfold auth login anthropic
  leftfold auth login openai < key.txt
  leftfold auth list";

pub(super) const IMPORT: &str = "\
Examples:
  leftfold import session.jsonl
  leftfold import ~/.claude/projects/PROJECT/SESSION.jsonl
  leftfold export last | ssh other leftfold import -";

pub(super) const CHECK: &str = "\
Examples:
  leftfold check last
  leftfold check last --salvage rescued

Exit codes:
  0 no damage   1 damage   2 bad usage";
