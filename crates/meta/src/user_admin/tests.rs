use super::*;
use crate::authorize::{Object, authorize};
use crate::test::meta;

fn root() -> Account {
    Account::root()
}

fn one(privilege: Privilege) -> Privileges {
    Privileges::NONE.with(privilege)
}

#[test]
fn a_new_store_has_root_with_all_and_the_empty_password() {
    let meta = meta();
    let catalog = meta.catalog();
    let user = catalog.user_for("root", "10.0.0.1").unwrap();
    assert!(user.auth.is_empty_password());
    assert_eq!(user.show_grants(), ["GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION"]);
    for &privilege in Privilege::ALL {
        authorize(&catalog, &root(), privilege, Object::Server).unwrap();
    }
    assert!(meta.change_users(|users| users.drop_user(&root(), &root(), true)).is_err());
    assert!(
        meta.change_users(|users| users.revoke(
            &root(),
            &root(),
            Privileges::all(),
            &GrantObject::Server
        ))
        .is_err()
    );
}

#[test]
fn users_are_created_changed_and_dropped() {
    let meta = meta();
    let app = Account { name: "app".to_owned(), host: "10.%".to_owned() };
    let auth = AuthData { native: Some([1; 20]), ..AuthData::default() };
    assert!(
        !meta.change_users(|users| users.create_user(&root(), &app, auth.clone(), false)).unwrap()
    );
    assert_eq!(
        meta.change_users(|users| users.create_user(&root(), &app, auth.clone(), false))
            .unwrap_err()
            .code()
            .errno(),
        1396
    );
    assert!(
        meta.change_users(|users| users.create_user(&root(), &app, AuthData::default(), true))
            .unwrap()
    );
    assert_eq!(meta.catalog().user(&app).unwrap().auth, auth);
    meta.change_users(|users| users.set_auth(&root(), &app, AuthData::default())).unwrap();
    assert!(meta.catalog().user(&app).unwrap().auth.is_empty_password());
    assert!(meta.catalog().user_for("app", "11.0.0.1").is_none());
    assert_eq!(Catalog::load(meta.store.as_ref()).unwrap(), *meta.catalog());
    assert!(meta.change_users(|users| users.drop_user(&root(), &app, false)).unwrap());
    assert!(!meta.change_users(|users| users.drop_user(&root(), &app, true)).unwrap());
    assert_eq!(
        meta.change_users(|users| users.drop_user(&root(), &app, false))
            .unwrap_err()
            .code()
            .errno(),
        1396
    );
    assert_eq!(
        meta.change_users(|users| users.set_auth(&root(), &app, auth)).unwrap_err().code().errno(),
        1396
    );
    let nobody = Account::anywhere("");
    assert_eq!(
        meta.change_users(|users| users.create_user(&root(), &nobody, AuthData::default(), false))
            .unwrap_err()
            .code()
            .errno(),
        1396
    );
}

#[test]
fn the_account_with_the_most_exact_host_is_the_one() {
    let meta = meta();
    for host in ["%", "10.%", "10.0.0.7"] {
        let account = Account { name: "app".to_owned(), host: host.to_owned() };
        meta.change_users(|users| users.create_user(&root(), &account, AuthData::default(), false))
            .unwrap();
    }
    let catalog = meta.catalog();
    let host = |client| catalog.user_for("app", client).unwrap().account.host.clone();
    assert_eq!(host("10.0.0.7"), "10.0.0.7");
    assert_eq!(host("10.0.0.8"), "10.%");
    assert_eq!(host("192.168.0.1"), "%");
}

#[test]
fn grants_add_up_and_are_shown() {
    let meta = meta();
    let app = Account::anywhere("app");
    meta.change_users(|users| users.create_user(&root(), &app, AuthData::default(), false))
        .unwrap();
    let database = GrantObject::Database("d".to_owned());
    let table = GrantObject::Table("d".to_owned(), "a`b".to_owned());
    meta.change_users(|users| users.grant(&app, one(Privilege::Select), &database)).unwrap();
    meta.change_users(|users| {
        users.grant(&app, one(Privilege::Insert).with(Privilege::GrantOption), &database)
    })
    .unwrap();
    meta.change_users(|users| users.grant(&app, Privileges::all(), &table)).unwrap();
    let shown = |meta: &Meta| meta.catalog().user(&app).unwrap().show_grants();
    assert_eq!(
        shown(&meta),
        [
            "GRANT USAGE ON *.* TO `app`@`%`",
            "GRANT SELECT, INSERT ON `d`.* TO `app`@`%` WITH GRANT OPTION",
            "GRANT ALL PRIVILEGES ON `d`.`a``b` TO `app`@`%`",
        ]
    );
    meta.change_users(|users| {
        users.revoke(&root(), &app, Privileges::all().with(Privilege::GrantOption), &database)
    })
    .unwrap();
    meta.change_users(|users| users.revoke(&root(), &app, one(Privilege::Drop), &table)).unwrap();
    assert_eq!(shown(&meta).len(), 2);
    assert!(!shown(&meta)[1].contains("DROP"));
    let catalog = meta.catalog();
    let may = |privilege| authorize(&catalog, &app, privilege, Object::Table("d", "a`b")).is_ok();
    assert!(may(Privilege::Insert) && !may(Privilege::Drop));
    let gone = Account::anywhere("gone");
    assert_eq!(
        meta.change_users(|users| users.grant(&gone, Privileges::all(), &database))
            .unwrap_err()
            .code()
            .errno(),
        1410
    );
}

#[test]
fn an_account_with_more_rights_is_out_of_reach() {
    let meta = meta();
    let of = |name: &str, host: &str| Account { name: name.to_owned(), host: host.to_owned() };
    let (clerk, peer, chief) = (of("clerk", "%"), of("peer", "%"), of("chief", "%"));
    for account in [&clerk, &peer, &chief] {
        meta.change_users(|users| users.create_user(&root(), account, AuthData::default(), false))
            .unwrap();
    }
    let server = GrantObject::Server;
    let makes_users = one(Privilege::CreateUser);
    meta.change_users(|users| users.grant(&clerk, makes_users.with(Privilege::Reload), &server))
        .unwrap();
    meta.change_users(|users| users.grant(&chief, makes_users.with(Privilege::Super), &server))
        .unwrap();
    let errno = |result: Result<()>| result.map_or_else(|e| e.code().errno(), |()| 0);
    let auth = || AuthData { native: Some([7; 20]), ..AuthData::default() };
    for target in [root(), chief.clone()] {
        assert_eq!(errno(meta.change_users(|users| users.set_auth(&clerk, &target, auth()))), 1227);
        assert_eq!(
            errno(meta.change_users(|users| users.drop_user(&clerk, &target, true)).map(drop)),
            1227
        );
        assert_eq!(
            errno(meta.change_users(|users| users.revoke(&clerk, &target, makes_users, &server))),
            1227
        );
        let shadow = of(&target.name, "127.0.0.1");
        assert_eq!(
            errno(
                meta.change_users(|users| users.create_user(&clerk, &shadow, auth(), false))
                    .map(drop)
            ),
            1227
        );
        assert!(meta.catalog().user(&target).unwrap().auth.is_empty_password());
    }
    assert_eq!(
        errno(meta.change_users(|users| users.set_auth(&peer, &clerk, auth()))),
        1227,
        "without CREATE USER"
    );
    assert_eq!(
        errno(
            meta.change_users(|users| users.create_user(&peer, &of("x", "%"), auth(), true))
                .map(drop)
        ),
        1227
    );
    // It may change its own password and those of accounts with no more privileges on the server.
    assert_eq!(errno(meta.change_users(|users| users.set_auth(&peer, &peer, auth()))), 0);
    let on_database = GrantObject::Database("d".to_owned());
    meta.change_users(|users| users.grant(&peer, one(Privilege::Select), &on_database)).unwrap();
    assert_eq!(errno(meta.change_users(|users| users.set_auth(&clerk, &peer, auth()))), 0);
    assert_eq!(
        errno(meta.change_users(|users| users.drop_user(&clerk, &peer, false)).map(drop)),
        0
    );
    assert_eq!(errno(meta.change_users(|users| users.set_auth(&root(), &chief, auth()))), 0);
}
