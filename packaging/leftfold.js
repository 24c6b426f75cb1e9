#!/usr/bin/env node
// Runs the program of this machine's platform, with the same arguments, terminal, signals and exit code.
const { spawn } = require("node:child_process");

const platform = `leftfold-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/leftfold`);
} catch {
  console.error(`leftfold: there is no package ${platform} here. Leftfold has packages for Linux on x64 and arm64. If this`);
  console.error("machine is one of them, install again without --omit=optional.");
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit", argv0: "leftfold" });
// a terminal sends Ctrl-C to both; this process ends after the program has
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP", "SIGQUIT"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`leftfold: cannot run ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
