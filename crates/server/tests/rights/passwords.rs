//! Which passwords an account can get: `validate_password.*`, PASSWORD HISTORY, REUSE INTERVAL.

use freshet_server::Settings;

use super::common::TestServer;
use super::options::asked;
use super::{Client, as_user};

const WEAK: &str = "Your password does not satisfy the current policy requirements";

#[test]
fn passwords_satisfy_the_policy() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user before_it identified by 'x'");
    assert_eq!(
        root.texts("show variables like 'validate_password.%'"),
        [
            ["validate_password.check_user_name", "ON"],
            ["validate_password.length", "8"],
            ["validate_password.mixed_case_count", "1"],
            ["validate_password.number_count", "1"],
            ["validate_password.policy", "NONE"],
            ["validate_password.special_char_count", "1"],
        ]
    );
    root.run("create user u");
    root.run("set global validate_password.policy = LOW");
    assert_eq!(root.one("select @@validate_password.policy"), "LOW");
    assert_eq!(root.one("select @@global.validate_password_policy"), "LOW");
    for (password, fits) in
        [("", false), ("short", false), ("longer_name", false), ("longer_one", true)]
    {
        for statement in [
            format!("create user if not exists longer_name identified by '{password}'"),
            format!("alter user longer_name identified by '{password}'"),
            format!("set password for longer_name = '{password}'"),
        ] {
            match fits {
                true => drop(root.run(&statement)),
                false => {
                    let refused = root.fails(&statement);
                    assert_eq!((refused.errno, &*refused.sqlstate), (1819, "HY000"), "{statement}");
                    assert_eq!(refused.message, WEAK);
                }
            }
        }
    }
    assert_eq!(root.fails("create user nobody").errno, 1819, "it would have no password");
    assert_eq!(root.fails("create user a, b identified by 'long enough'").errno, 1819);
    assert_eq!(root.texts("select user from mysql.user where user in ('a', 'b')").len(), 0);
    // Who has to change its own is checked, too.
    let mut own = as_user(&server, "u");
    assert_eq!(own.fails("set password = 'u'").errno, 1819);
    own.run("alter user u identified by 'long enough'");
    assert!(Client::connect(server.address, "u", "long enough", None).is_ok());
    // Hashes are taken as they are, and roles have no passwords.
    root.run(
        "create user hashed identified with mysql_native_password as \
         '*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4'",
    );
    root.run("create role r");
    assert!(Client::connect(server.address, "before_it", "x", None).is_ok());
}

#[test]
fn passwords_contain_what_the_policy_asks_for() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user u");
    root.run("set global validate_password.policy = 1");
    assert_eq!(root.one("select @@global.validate_password.policy"), "MEDIUM");
    for weak in ["lowercase1!", "UPPERCASE1!", "No-Digits!", "NoSpecial1", "Sh0rt-", "!1Root"] {
        assert_eq!(root.fails(&format!("set password for u = '{weak}'")).errno, 1819, "{weak}");
    }
    root.run("set password for u = 'Good-enough1'");
    root.run("set global validate_password.number_count = 2, global validate_password.length = 4");
    assert_eq!(root.fails("set password for u = 'Good-enough1'").errno, 1819);
    root.run("set password for u = 'Go-12'");
    root.run("set global validate_password.check_user_name = off");
    root.run("create user `A-a12` identified by 'A-a12'");
    // Only who may set global variables turns it off.
    let mut own = Client::connect(server.address, "u", "Go-12", None).unwrap();
    assert_eq!(own.fails("set global validate_password.policy = NONE").errno, 1227);
    assert_eq!(own.fails("set validate_password.policy = NONE").errno, 1229);
    assert_eq!(root.fails("set global validate_password.policy = 'ANY'").errno, 1231);
    root.run("set global validate_password.policy = default");
    root.run("create user nobody");
}

#[test]
fn a_start_has_the_policy_of_its_settings() {
    let settings = Settings { password_policy: "MEDIUM".to_owned(), ..Settings::local() };
    let server = TestServer::with(settings);
    let mut root = server.connect();
    assert_eq!(root.fails("create user u identified by 'long enough'").errno, 1819);
    root.run("create user u identified by 'Long-enough1'");
}

#[test]
fn the_strength_of_a_password_is_told() {
    let server = TestServer::start();
    let mut root = server.database("d");
    let strength = |root: &mut Client, password: &str| {
        root.one(&format!("select validate_password_strength({password})"))
    };
    for (password, expected) in [
        ("'weak'", "25"),
        ("'lessweak$_@123'", "50"),
        ("'N0Tweak$_@123!'", "100"),
        ("''", "0"),
        ("NULL", "NULL"),
        ("12345678", "50"),
    ] {
        assert_eq!(strength(&mut root, password), expected, "{password}");
    }
    root.run("set global validate_password.length = 4");
    assert_eq!(strength(&mut root, "'weak'"), "50");
    root.run("set global validate_password.mixed_case_count = 2");
    assert_eq!(strength(&mut root, "'weak'"), "25", "what it has to contain is longer");
    root.run("set global validate_password.mixed_case_count = 0");
    assert_eq!(strength(&mut root, "'weak'"), "50");
    root.run("create table t (a varchar(20))");
    root.run("insert into t values ('abc'), ('abcd'), (null)");
    assert_eq!(
        root.texts("select validate_password_strength(a) from t order by a"),
        [["NULL"], ["0"], ["50"]]
    );
    assert_eq!(root.fails("select validate_password_strength()").errno, 1582);
}

#[test]
fn a_password_cannot_be_had_again() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user u identified by 'p0' password history 2 password reuse interval default");
    let set = |client: &mut Client, password: &str| {
        client.run(&format!("alter user u identified by '{password}'"));
    };
    let refused = |client: &mut Client, statement: &str| {
        let refused = client.fails(statement);
        assert_eq!((refused.errno, &*refused.sqlstate), (3638, "HY000"), "{statement}");
        assert_eq!(
            refused.message,
            "Cannot use these credentials for 'u@%' because they contradict the password history \
             policy"
        );
    };
    refused(&mut root, "alter user u identified by 'p0'");
    set(&mut root, "p1");
    refused(&mut root, "alter user u identified by 'p0'");
    refused(&mut root, "set password for u = 'p1'");
    // For another plugin too, of which the slow hash alone is known.
    refused(&mut root, "alter user u identified with caching_sha2_password by 'p0'");
    root.run("alter user u identified with caching_sha2_password by 'p2'");
    refused(&mut root, "alter user u identified by 'p2'");
    let kept = "select count(*) from mysql.password_history where user = 'u' and password = ''";
    assert_eq!(root.one(kept), "2");
    set(&mut root, "p0");
    // The own password too; an empty one is none that is remembered.
    root.run("alter user u identified by ''");
    let mut own = as_user(&server, "u");
    refused(&mut own, "set password = 'p0'");
    own.run("set password = 'p9'");
    // What the statement says counts for its password, and DEFAULT is what the server says.
    root.run("alter user u identified by 'p9' password history 0");
    assert_eq!(root.one(kept), "0");
    root.run("alter user u password history default");
    root.run("set global password_history = 1");
    refused(&mut root, "alter user u identified by 'p9'");
    root.run("set global password_history = default");
    set(&mut root, "p9");
    root.run("alter user u password reuse interval 365 day");
    refused(&mut root, "alter user u identified by 'p9'");
    assert!(
        root.one("show create user u").contains("HISTORY DEFAULT PASSWORD REUSE INTERVAL 365 ")
    );
    let columns = "password_reuse_history, password_reuse_time";
    let options = root.texts(&format!("select {columns} from mysql.user where user = 'u'"));
    assert_eq!(options, [["NULL", "365"]]);
}

#[test]
fn the_own_password_is_changed_by_who_knows_it() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user u identified by '' password require current");
    root.run("create user plain");
    let shown = |root: &mut Client, user: &str| root.one(&format!("show create user {user}"));
    assert!(shown(&mut root, "u").ends_with("PASSWORD REQUIRE CURRENT"));
    assert!(shown(&mut root, "plain").ends_with("PASSWORD REQUIRE CURRENT DEFAULT"));
    let mut own = as_user(&server, "u");
    let fails = |client: &mut Client, statement: &str| {
        let refused = client.fails(statement);
        assert_eq!(&*refused.sqlstate, "HY000", "{statement}");
        refused.errno
    };
    for statement in ["alter user u identified by 'p1'", "set password = 'p1'"] {
        assert_eq!(fails(&mut own, statement), 3892);
        assert_eq!(fails(&mut own, &format!("{statement} replace 'p0'")), 3891);
    }
    own.run("alter user u identified by 'p1' replace ''");
    assert_eq!(fails(&mut own, "set password = 'p2' replace ''"), 3891);
    own.run("set password = 'p2' replace 'p1'");
    own.run("alter user u identified with caching_sha2_password by 'p3' replace 'p2'");
    assert_eq!(fails(&mut own, "set password = 'p4' replace 'p2'"), 3891);
    own.run("set password = 'p4' replace 'p3'");
    // Nobody says it of another account, and who may CREATE USER need not say it at all.
    let of_other = "alter user u identified by 'p5' replace 'p4'";
    assert_eq!(fails(&mut root, of_other), 3890);
    root.run("alter user u identified by 'p5'");
    root.run("set password for u = 'p6'");
    assert_eq!(own.fails("alter user plain identified by 'x'").errno, 1227);
    root.run("grant create user on *.* to u");
    own.run("set password = 'p7'");
    assert_eq!(fails(&mut own, "set password = 'p8' replace 'p0'"), 3891);
    root.run("revoke create user on *.* from u");
    // OPTIONAL asks for nothing, DEFAULT for what the server says.
    root.run("alter user u password require current optional");
    assert!(shown(&mut root, "u").ends_with("PASSWORD REQUIRE CURRENT OPTIONAL"));
    root.run("set global password_require_current = on");
    own.run("set password = 'p8'");
    assert_eq!(fails(&mut own, "set password = 'p9' replace 'p0'"), 3891);
    root.run("alter user u password require current default");
    assert_eq!(fails(&mut own, "set password = 'p9'"), 3892);
    root.run("set global password_require_current = default");
    own.run("set password = 'p9'");
    let read = "select user, password_require_current from mysql.user where user in ('u', 'o') \
                order by user";
    root.run("create user o password require current optional");
    assert_eq!(root.texts(read), [["o", "N"], ["u", "NULL"]]);
    assert_eq!(root.fails("create user x identified by 'a' replace 'b'").errno, 1064);
    let twice = "alter user o identified by 'a', o identified by 'b'";
    assert_eq!(root.fails(twice).errno, 1396);
}

#[test]
fn a_password_that_the_server_makes_is_told_once_and_opens_the_account() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("set global validate_password.policy = 'strong'");
    let made = root.texts("create user r@'%' identified by random password");
    assert_eq!((made.len(), &made[0][..2]), (1, &["r".to_owned(), "%".to_owned()][..]));
    let first = made[0][2].clone();
    assert_eq!((first.len(), &*made[0][3]), (20, "1"));
    Client::connect(server.address, "r", &first, None).unwrap();
    root.run("set global generated_random_password_length = 30");
    let second = root.texts("alter user r identified by random password")[0][2].clone();
    assert_eq!(second.len(), 30);
    assert_ne!(first[..5], second[..5]);
    assert!(Client::connect(server.address, "r", &first, None).is_err());
    Client::connect(server.address, "r", &second, None).unwrap();
    // Of an account that existed none is made, and none told.
    root.run("create user if not exists r identified by random password");
    Client::connect(server.address, "r", &second, None).unwrap();
    assert_eq!(root.fails("create user r identified by random password").errno, 1396);
}

/// Whether the account `u` opens by these passwords, over both protocols.
fn opens(server: &TestServer, passwords: &[&str]) -> Vec<bool> {
    let opens = |password: &&str| {
        let by_mysql = Client::connect(server.address, "u", password, None).is_ok();
        let answer = asked(server, ("u", password), "GET /api/bootstrap", "");
        assert_eq!(!answer.starts_with("HTTP/1.1 401"), by_mysql, "{password}: {answer}");
        by_mysql
    };
    passwords.iter().map(opens).collect()
}

#[test]
fn a_retained_password_opens_the_account_until_it_is_discarded() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("create user u identified by 'one'");
    assert_eq!(opens(&server, &["one"]), [true], "its fast hash is kept");
    root.run("alter user u identified by 'two' retain current password");
    for _ in 0..2 {
        assert_eq!(opens(&server, &["two", "one", "wrong", ""]), [true, true, false, false]);
    }
    // Who is in may go on by itself, and a change without these words leaves the second one.
    let mut own = Client::connect(server.address, "u", "one", None).unwrap();
    own.run("set password = 'three' retain current password");
    assert_eq!(opens(&server, &["three", "two", "one"]), [true, true, false]);
    own.run("alter user user() identified by 'four'");
    assert_eq!(opens(&server, &["four", "three", "two"]), [true, false, true]);
    let server = server.restart();
    assert_eq!(opens(&server, &["two", "four", "three"]), [true, true, false]);
    let mut own = Client::connect(server.address, "u", "two", None).unwrap();
    assert_eq!(own.fails("alter user root discard old password").errno, 1227);
    own.run("alter user user() discard old password");
    assert_eq!(opens(&server, &["four", "two"]), [true, false]);

    let mut root = server.connect();
    root.run("alter user u identified with mysql_native_password by 'five'");
    root.run("alter user u identified with mysql_native_password by 'six' retain current password");
    assert_eq!(opens(&server, &["six", "five", "four"]), [true, true, false]);
    root.run("alter user u identified by 'seven' retain current password");
    assert_eq!(opens(&server, &["seven", "six", "five"]), [true, true, false]);
    root.run("alter user u identified with caching_sha2_password by 'eight'");
    root.run("drop user u");
    root.run("create user u identified by 'nine'");
    assert_eq!(opens(&server, &["nine", "seven", "six"]), [true, false, false]);
}
