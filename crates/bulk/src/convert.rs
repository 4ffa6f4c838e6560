//! Definitions of MySQL and MariaDB as Freshet has them.
//!
//! Works on what SHOW CREATE TABLE prints, which has a column or a key a line. What Freshet knows
//! stays as it is; what is left out only checked, computed or found rows, which stay the same.

/// Types that Freshet has not, and those that hold their values as they are dumped.
const TYPES: [(&str, &str); 4] = [
    ("bit", "bigint unsigned"),
    ("uuid", "varchar(36)"),
    ("inet6", "varchar(45)"),
    ("inet4", "varchar(15)"),
];
/// Lines that begin so are left out.
const LEFT_OUT: [&str; 4] = ["FULLTEXT", "SPATIAL", "CONSTRAINT", "CHECK"];

/// The definition of a table, or the same text if it is none.
pub fn for_freshet(create: &str) -> String {
    let mut lines = create.lines();
    let Some(first) = lines.next().filter(|line| line.starts_with("CREATE TABLE")) else {
        return create.to_owned();
    };
    let mut kept = Vec::new();
    let mut last = ")";
    for line in lines {
        if line.starts_with(')') {
            last = line;
            // Partitions would follow.
            break;
        }
        let words = words(line.trim().trim_end_matches(','));
        if let Some(line) = line_of(&words) {
            kept.push(format!("  {line}"));
        }
    }
    format!("{first}\n{}\n{last}", kept.join(",\n"))
}

/// The words of a line; what is in quotes or parentheses is one word with what it stands at.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    let mut quote = None;
    let mut bytes = line.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(b'\''), b'\\') => drop(bytes.next()),
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            (None, b' ') if depth == 0 => {
                words.push(&line[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    words.push(&line[from..]);
    words.retain(|word| !word.is_empty());
    words
}

/// The line of a column or a key; `None` if it is left out.
fn line_of(words: &[&str]) -> Option<String> {
    let is = |word: &str, name: &str| word.eq_ignore_ascii_case(name);
    let first = words.first()?;
    if LEFT_OUT.iter().any(|name| is(first, name)) {
        return None;
    }
    if !first.starts_with('`') {
        return Some(words.join(" "));
    }
    let mut kept = vec![(*first).to_owned()];
    kept.extend(words.get(1).map(|ty| type_of(ty)));
    let mut rest = words.iter().skip(2);
    while let Some(word) = rest.next() {
        if is(word, "GENERATED") || is(word, "AS") {
            return None;
        } else if is(word, "CHECK") || is(word, "COLLATE") {
            rest.next();
        } else if is(word, "CHARACTER") {
            rest.nth(1);
        } else if word.starts_with("/*!") {
            rest.by_ref().find(|word| word.ends_with("*/"));
        } else if !is(word, "zerofill") && !is(word, "INVISIBLE") {
            kept.push(number_of_bits(word).unwrap_or_else(|| (*word).to_owned()));
        }
    }
    Some(kept.join(" "))
}

fn type_of(ty: &str) -> String {
    let name = ty.split('(').next().unwrap_or_default();
    let known = TYPES.iter().find(|(from, _)| from.eq_ignore_ascii_case(name));
    known.map_or_else(|| ty.to_owned(), |(_, to)| (*to).to_owned())
}

/// The number that `b'101'` stands for.
fn number_of_bits(word: &str) -> Option<String> {
    let digits = word.strip_prefix("b'")?.strip_suffix('\'')?;
    u64::from_str_radix(digits, 2).ok().map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_freshet_has_not_is_put_in_other_words() {
        let create = "CREATE TABLE `t` (\n  \
            `id` int(11) NOT NULL AUTO_INCREMENT COMMENT 'it''s, CHECK (x) \\' y',\n  \
            `e` enum('a b','c)') CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'a b',\n  \
            `y` year(4) DEFAULT NULL,\n  `b` bit(3) NOT NULL DEFAULT b'101',\n  \
            `at` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),\n  \
            `j` longtext DEFAULT NULL CHECK (json_valid(`j`)),\n  \
            `g` int(11) GENERATED ALWAYS AS (`id` + 1) VIRTUAL,\n  \
            `h` int /*!80023 INVISIBLE */,\n  PRIMARY KEY (`id`),\n  KEY `k` (`e`(2),`y`),\n  \
            FULLTEXT KEY `f` (`j`),\n  CONSTRAINT `c` FOREIGN KEY (`y`) REFERENCES `u` (`y`)\n\
            ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4\n PARTITION BY HASH (`id`)\nPARTITIONS 4";
        let expected = "CREATE TABLE `t` (\n  \
            `id` int(11) NOT NULL AUTO_INCREMENT COMMENT 'it''s, CHECK (x) \\' y',\n  \
            `e` enum('a b','c)') DEFAULT 'a b',\n  `y` year(4) DEFAULT NULL,\n  \
            `b` bigint unsigned NOT NULL DEFAULT 5,\n  \
            `at` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),\n  \
            `j` longtext DEFAULT NULL,\n  \
            `h` int,\n  PRIMARY KEY (`id`),\n  KEY `k` (`e`(2),`y`)\n\
            ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4";
        assert_eq!(for_freshet(create), expected);
        assert_eq!(for_freshet("CREATE VIEW v AS SELECT 1"), "CREATE VIEW v AS SELECT 1");
    }
}
