//! Definitions of MySQL and MariaDB as Freshet has them.
//!
//! Works on what SHOW CREATE TABLE prints, which has a column or a key a line. What Freshet knows
//! stays as it is; what is left out only found or divided rows, which stay the same.

use freshet_schema::Collation;

/// Types that Freshet has not, and those that hold their values as they are dumped.
const TYPES: [(&str, &str); 3] =
    [("uuid", "varchar(36)"), ("inet6", "varchar(45)"), ("inet4", "varchar(15)")];
/// Lines that begin so are left out.
const LEFT_OUT: [&str; 2] = ["FULLTEXT", "SPATIAL"];

/// The definition of a table, or the same text if it is none.
pub fn for_freshet(create: &str) -> String {
    let mut lines = create.lines();
    let Some(first) = lines.next().filter(|line| line.starts_with("CREATE TABLE")) else {
        return create.to_owned();
    };
    let mut body = Vec::new();
    let mut last = ")".to_owned();
    for line in lines {
        if line.starts_with(')') {
            last = options_of(line);
            // Partitions would follow.
            break;
        }
        body.push(words(line.trim().trim_end_matches(',')));
    }
    let kept = body.iter().filter_map(|words| line_of(words));
    let kept = kept.map(|line| format!("  {line}")).collect::<Vec<_>>();
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

fn is(word: &str, name: &str) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// The line of a column or a key; `None` if it is left out.
fn line_of(words: &[&str]) -> Option<String> {
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
        if is(word, "COLLATE") {
            kept.extend(rest.next().and_then(|name| collation_of(words, name)));
        } else if word.starts_with("/*!") {
            rest.by_ref().find(|word| word.ends_with("*/"));
        } else if !is(word, "zerofill") && !is(word, "INVISIBLE") {
            kept.push((*word).to_owned());
        }
    }
    Some(kept.join(" "))
}

/// The COLLATE of a text, if it is known here: otherwise its character set says the nearest.
fn collation_of(words: &[&str], name: &str) -> Option<String> {
    let ty = words.get(1)?.to_ascii_lowercase();
    let is_text = ty.starts_with("char") || ty.starts_with("varchar") || ty.ends_with("text");
    let collation = Collation::standing_for(name)?;
    let is_kept = is_text && collation != Collation::Binary;
    is_kept.then(|| format!("COLLATE {}", collation.name()))
}

/// The line behind the columns, without a COLLATE that is not known here.
fn options_of(line: &str) -> String {
    let is_known = |word: &&str| match word.split_once('=') {
        Some((option, name)) => !is(option, "COLLATE") || Collation::standing_for(name).is_some(),
        None => true,
    };
    words(line).into_iter().map(str::trim_start).filter(is_known).collect::<Vec<_>>().join(" ")
}

fn type_of(ty: &str) -> String {
    let name = ty.split('(').next().unwrap_or_default();
    let known = TYPES.iter().find(|(from, _)| from.eq_ignore_ascii_case(name));
    known.map_or_else(|| ty.to_owned(), |(_, to)| (*to).to_owned())
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
            `e` enum('a b','c)') CHARACTER SET latin1 DEFAULT 'a b',\n  \
            `y` year(4) DEFAULT NULL,\n  \
            `b` bit(3) NOT NULL DEFAULT b'101',\n  \
            `at` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),\n  \
            `j` longtext DEFAULT NULL CHECK (json_valid(`j`)),\n  \
            `g` int(11) GENERATED ALWAYS AS (`id` + 1) VIRTUAL,\n  \
            `h` int,\n  PRIMARY KEY (`id`),\n  KEY `k` (`e`(2),`y`),\n  \
            CONSTRAINT `c` FOREIGN KEY (`y`) REFERENCES `u` (`y`)\n\
            ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4";
        assert_eq!(for_freshet(create), expected);
        assert_eq!(for_freshet("CREATE VIEW v AS SELECT 1"), "CREATE VIEW v AS SELECT 1");
    }

    #[test]
    fn collations_and_checks_stay_where_they_can() {
        let create = "CREATE TABLE `t` (\n  \
            `id` varchar(9) COLLATE utf8mb4_general_ci NOT NULL,\n  \
            `a` varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,\n  \
            `b` text COLLATE utf8mb4_de_pb_0900_ai_ci,\n  \
            `c` char(3) COLLATE utf8mb3_unicode_ci DEFAULT 'x' CHECK (`c` <> 'CHECK (x)'),\n  \
            `g` int(11) GENERATED ALWAYS AS (1) VIRTUAL,\n  PRIMARY KEY (`id`),\n  \
            UNIQUE KEY `u` (`c`,`id`),\n  \
            CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `u` (`y`),\n  \
            CONSTRAINT `one` CHECK (`a` > `b`),\n  CONSTRAINT `two` CHECK (`g` > 0)\n\
            ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci COMMENT='a b'";
        let expected = "CREATE TABLE `t` (\n  \
            `id` varchar(9) COLLATE utf8mb4_general_ci NOT NULL,\n  \
            `a` varchar(9) CHARACTER SET latin1 COLLATE utf8mb4_general_ci DEFAULT NULL,\n  \
            `b` text,\n  \
            `c` char(3) COLLATE utf8mb4_unicode_ci DEFAULT 'x' CHECK (`c` <> 'CHECK (x)'),\n  \
            `g` int(11) GENERATED ALWAYS AS (1) VIRTUAL,\n  PRIMARY KEY (`id`),\n  \
            UNIQUE KEY `u` (`c`,`id`),\n  \
            CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `u` (`y`),\n  \
            CONSTRAINT `one` CHECK (`a` > `b`),\n  CONSTRAINT `two` CHECK (`g` > 0)\n\
            ) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='a b'";
        assert_eq!(for_freshet(create), expected);
    }
}
