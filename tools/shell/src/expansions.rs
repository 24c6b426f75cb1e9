//! Expansions and tests that are certain not to run a command.
//!
//! Bash evaluates arithmetic, subscripts and variable names again at run time: in `$((x))` the value of
//! `x` may hold `a[$(rm y)]`, and bash runs `rm y`. A text passes here only if it consists of literals;
//! the parser reports everything else as unknown. Nothing here decides which rule applies.

use crate::word;

/// Variables to which bash gives the integer attribute: assigning evaluates the value as arithmetic.
const INTEGERS: &[&str] = &[
    "BASHPID", "EPOCHREALTIME", "EPOCHSECONDS", "HISTCMD", "LINENO", "MAILCHECK", "OPTIND",
    "RANDOM", "SECONDS", "SRANDOM",
];

/// Operators in `[[ ]]` that evaluate both operands as arithmetic.
const COMPARISONS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Whether assigning to `name` evaluates the value.
pub(crate) fn is_integer(name: &str) -> bool {
    INTEGERS.contains(&name)
}

/// Whether an arithmetic expression consists of numbers and operators alone. `$?`, `$#`, `$$` and `$!`
/// are numbers.
pub(crate) fn is_literal_arithmetic(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    let mut in_number = false;
    let mut hexadecimal = false;
    while let Some(c) = chars.next() {
        let digit = c.is_ascii_digit() || (hexadecimal && c.is_ascii_hexdigit());
        if c == '0' && !in_number && matches!(chars.peek(), Some('x' | 'X')) {
            chars.next();
            (in_number, hexadecimal) = (true, true);
        } else if digit {
            in_number = true;
        } else if c == '$' && !in_number && chars.next_if(|c| "?#$!".contains(*c)).is_some() {
            // a digit after `$?` would join it
            in_number = true;
        } else if c.is_ascii_whitespace() || "+-*/%()<>=!&|^~?:,".contains(c) {
            (in_number, hexadecimal) = (false, false);
        } else {
            return false;
        }
    }
    true
}

/// Whether a subscript is a number, `@` or `*`.
pub(crate) fn is_literal_subscript(index: &str) -> bool {
    let digits = index.strip_prefix('-').unwrap_or(index);
    matches!(index, "@" | "*") || is_number(digits)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether `${…}`, given with its braces, evaluates nothing. Commands in its operand are judged by
/// themselves.
pub(crate) fn is_plain_parameter(text: &str) -> bool {
    let Some(body) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return false;
    };
    if matches!(body, "#" | "?" | "$" | "!" | "-" | "@" | "*") {
        return true;
    }
    let (length, body) = match body.strip_prefix('#') {
        Some(rest) => (true, rest),
        None => (false, body),
    };
    let Some(rest) = after_parameter(body) else { return false };
    if rest.is_empty() {
        return true;
    }
    !length && is_plain_operation(rest)
}

/// The text after the parameter and its subscript; `None` if that is not certain to be plain.
fn after_parameter(body: &str) -> Option<&str> {
    let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let end = match body.chars().next()? {
        c if c.is_ascii_digit() => body.find(|c: char| !c.is_ascii_digit()),
        c if is_name(c) => body.find(|c| !is_name(c)),
        '@' | '*' | '?' | '$' => Some(1),
        _ => return None,
    };
    let rest = &body[end.unwrap_or(body.len())..];
    let Some(subscript) = rest.strip_prefix('[') else { return Some(rest) };
    let (index, rest) = subscript.split_once(']')?;
    is_literal_subscript(index).then_some(rest)
}

/// Whether an operator with its operand neither evaluates nor quotes in a way that could be misread.
fn is_plain_operation(text: &str) -> bool {
    let operand = |operators: &[&str]| {
        operators.iter().find_map(|operator| text.strip_prefix(operator)).map(is_plain_operand)
    };
    if let Some(plain) = operand(&[":-", ":+", ":?", ":="]) {
        return plain;
    }
    if let Some(range) = text.strip_prefix(':') {
        return is_literal_range(range);
    }
    if let Some(transformation) = text.strip_prefix('@') {
        return matches!(transformation, "Q" | "U" | "u" | "L");
    }
    operand(&["-", "+", "?", "=", "##", "#", "%%", "%", "//", "/", "^^", "^", ",,", ","])
        .unwrap_or(false)
}

/// `0`, ` -1`, `0:2`.
fn is_literal_range(range: &str) -> bool {
    range.split(':').count() <= 2
        && range.split(':').all(|part| {
            let part = part.trim_matches(' ');
            is_number(part.strip_prefix('-').unwrap_or(part))
        })
}

/// Letters, blanks, wild characters, plain variables; optionally in double quotes.
fn is_plain_operand(operand: &str) -> bool {
    let inner = match operand.strip_prefix('"') {
        Some(rest) => match rest.strip_suffix('"') {
            Some(inner) => inner,
            None => return false,
        },
        None => operand,
    };
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '$' {
            let braced = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            rest = match braced {
                Some((name, rest)) if word::is_name(name) => rest,
                Some(_) => return false,
                None if rest.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric()) => rest,
                None => return false,
            };
        } else if !(c.is_alphanumeric() || " _./:,@%+=~^*?#-[]!".contains(c)) {
            return false;
        }
    }
    true
}

/// Whether `[[ … ]]` compares only literal numbers and tests only plain names with `-v` and `-R`.
pub(crate) fn is_plain_test(text: &str) -> bool {
    let text = text.replace("\\\n", "");
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let number = |word: Option<&&str>| {
        word.is_some_and(|word| is_literal_arithmetic(word) && !word.contains(['(', ')']))
    };
    words.iter().enumerate().all(|(at, word)| match *word {
        _ if COMPARISONS.contains(word) => {
            at > 0 && number(words.get(at - 1)) && number(words.get(at + 1))
        }
        "-v" | "-R" => words.get(at + 1).is_some_and(|name| word::is_name(name)),
        // next to something that the shell separates and a blank does not
        _ => !COMPARISONS.iter().chain(&["-v", "-R"]).any(|operator| {
            word.len() > operator.len()
                && (word.ends_with(operator) || word.starts_with(operator))
                && word.contains(['(', ')', '!', '&', '|', ';'])
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic() {
        for text in ["", "1+2", " ( 3 * 0x1F ) ", "1 ? 2 : 3", "$? + $#", "-1"] {
            assert!(is_literal_arithmetic(text), "{text}");
        }
        for text in ["x", "$x", "'1'", "a[0]", "1x", "${x}", "$(x)", "$?x", "16#f", "`x`"] {
            assert!(!is_literal_arithmetic(text), "{text}");
        }
    }

    #[test]
    fn parameters() {
        for text in [
            "${x}", "${#x}", "${x[0]}", "${x[@]}", "${#x[@]}", "${1}", "${x:-a b}",
            "${x:-\"a b\"}", "${x##*/}", "${x%.*}", "${x//a/b}", "${x:1:2}", "${x: -1}", "${x^^}",
            "${x@Q}", "${@:1}", "${x:-$y}", "${x:-${y}}", "${#}", "${!}", "${x:?no}", "${x:=a}",
        ] {
            assert!(is_plain_parameter(text), "{text}");
        }
        for text in [
            "${x[y]}", "${x:y}", "${x@P}", "${!x}", "${!x*}", "${x[$y]}", "${x:0:y}", "${x:-'a'}",
            "${x:-$(a)}", "${x/a/`b`}", "${x", "x", "${x@A}", "${#x:1}", "${x:$1}", "${x:-$((1))}",
            "${}", "${x[0]y}", "${x:-\"a}", "${@:x}",
        ] {
            assert!(!is_plain_parameter(text), "{text}");
        }
    }

    #[test]
    fn tests() {
        for text in [
            "[[ -n $x ]]", "[[ 1 -eq 2 ]]", "[[ $# -gt 1 && -v x ]]", "[[ a == b* ]]",
            "[[ -f -value ]]",
        ] {
            assert!(is_plain_test(text), "{text}");
        }
        for text in [
            "[[ x -eq 1 ]]", "[[ 1 -eq x ]]", "[[ -v a[0] ]]", "[[ -v $x ]]", "[[ (x -eq 1) ]]",
            "[[ x -e\\\nq 1 ]]", "[[ (-v a[0]) ]]", "[[ !(-v x) ]]", "[[ 1 -eq (x) ]]",
        ] {
            assert!(!is_plain_test(text), "{text}");
        }
    }
}
