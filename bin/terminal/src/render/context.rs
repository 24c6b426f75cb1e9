//! The use of the model's context, as a bar and a list.

use leftfold_view::ContextUse;
use leftfold_view::words::thousands;
use ratatui::style::Style;
use ratatui::text::Line;

use super::wrap::{self, clip, span};
use crate::theme::Theme;

/// The widest bar in columns.
const WIDEST: usize = 60;

/// `measured` is what the last exchange used, as the provider counted.
pub(crate) fn context(
    used: &ContextUse,
    measured: Option<u64>,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let columns = usize::from(width).max(1);
    let size = used.size;
    let shown = measured.unwrap_or_else(|| used.used());
    let percent = |tokens: u64, of: u64| tokens.saturating_mul(100).checked_div(of);
    let of_size = match percent(shown, size) {
        Some(percent) => {
            format!("{} of {} tokens ({percent} %)", thousands(shown), thousands(size))
        }
        None => format!("{} tokens", thousands(shown)),
    };
    let about = if measured.is_some() { "" } else { "about " };
    let head = [span("context ", theme.heading), span(&format!("{about}{of_size}"), theme.text)];
    let mut lines = vec![Line::from(clip(&head, columns))];
    let whole = if size > 0 { size.max(used.used()) } else { used.used() };
    lines.push(bar(used, whole, columns.min(WIDEST), theme));
    for ((name, tokens), (sign, style)) in used.parts().into_iter().zip(looks(theme)) {
        let share = percent(tokens, whole).unwrap_or(0);
        let row = [
            span(&format!("{sign} "), style),
            span(&format!("{name:<13}"), theme.text),
            span(&format!("{:>9} {share:>3} %", thousands(tokens)), theme.dim),
        ];
        lines.push(Line::from(clip(&row, columns)));
    }
    if size > 0 {
        let free = size.saturating_sub(shown);
        let share = percent(free, size).unwrap_or(0);
        let row = format!("  {:<13}{:>9} {share:>3} %", "free", thousands(free));
        lines.push(Line::from(clip(&[span(&row, theme.dim)], columns)));
    }
    let note = "the parts are estimated from the lengths of their texts";
    lines.extend(wrap::note(note, theme.dim, columns));
    lines
}

/// The sign and the style of each part. The signs differ, for screens without colours.
fn looks(theme: &Theme) -> [(&'static str, Style); 5] {
    [
        ("S", theme.syntax.keyword),
        ("I", theme.syntax.string),
        ("T", theme.syntax.number),
        ("M", theme.syntax.function),
        ("R", theme.syntax.name),
    ]
}

fn bar(used: &ContextUse, whole: u64, columns: usize, theme: &Theme) -> Line<'static> {
    let place = |tokens: u64| {
        let columns = u128::try_from(columns).unwrap_or(0);
        let place = (u128::from(tokens) * columns).checked_div(u128::from(whole)).unwrap_or(0);
        usize::try_from(place).unwrap_or(0)
    };
    let mut spans = Vec::new();
    let (mut sum, mut filled) = (0_u64, 0);
    for ((_, tokens), (sign, style)) in used.parts().into_iter().zip(looks(theme)) {
        sum = sum.saturating_add(tokens);
        let end = place(sum).min(columns).max(filled);
        spans.push(span(&sign.repeat(end - filled), style));
        filled = end;
    }
    spans.push(span(&".".repeat(columns - filled), theme.dim));
    spans.retain(|span| !span.content.is_empty());
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{assert_fits, marked, theme};

    #[test]
    fn the_bar_shows_each_part() {
        let used = ContextUse {
            system: 1_000,
            instructions: 2_000,
            tools: 1_000,
            messages: 500,
            results: 5_500,
            size: 20_000,
        };
        let lines = marked(&context(&used, Some(11_000), 20, &theme()));
        assert_eq!(lines[1], "{keyword:S}{string:II}{literal:T}{name:RRRRRR}{dim:..........}");
        let lines = marked(&context(&used, Some(11_000), 60, &theme()));
        assert_eq!(lines[0], "{heading:context }11,000 of 20,000 tokens (55 %)");
        assert_eq!(lines[2], "{keyword:S }system       {dim:    1,000   5 %}");
        assert_eq!(lines[7], "{dim:  free             9,000  45 %}");
        let unknown = ContextUse { size: 0, ..used };
        assert_eq!(
            marked(&context(&unknown, None, 60, &theme()))[0],
            "{heading:context }about 10,000 tokens"
        );
        let huge = ContextUse { system: u64::MAX / 2, size: 1, ..used };
        for width in 0..70 {
            for used in [used, unknown, huge, ContextUse::default()] {
                assert_fits(&context(&used, None, width, &theme()), width);
            }
        }
    }
}
