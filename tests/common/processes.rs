//! The processes that calls have started.

use std::time::{Duration, Instant};

use super::STEP_TIMEOUT;

/// Running processes whose environment marks them as part of a call of `session`: ids and command
/// lines.
pub fn marked(session: &str) -> Vec<(u32, String)> {
    let mark = format!(":{session}:");
    let Ok(table) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = table.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let of = |name| std::fs::read(format!("/proc/{pid}/{name}")).ok();
        let environ = of("environ")?;
        let ours = environ.split(|byte| *byte == 0).any(|variable| {
            let variable = String::from_utf8_lossy(variable);
            variable.strip_prefix("LEFTFOLD_CALL=").is_some_and(|call| call.contains(&mark))
        });
        ours.then(|| {
            (pid, String::from_utf8_lossy(&of("cmdline").unwrap_or_default()).into_owned())
        })
    })
    .collect()
}

/// Repeats the check until it succeeds.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < STEP_TIMEOUT, "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Peak memory of a process in KiB.
pub fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Processes `sleep NUMBER`, whatever became of their environment.
pub fn sleeping(number: &str) -> usize {
    let table = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = table.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{number}\0").into_bytes();
    lines.filter(|line| *line == wanted).count()
}
