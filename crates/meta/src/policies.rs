//! Row policies: how tables get them, and whom they restrict.
//!
//! They are part of their table, so they go where it goes: RENAME, the recycle bin, DROP.

use freshet_base::{Result, TableId, bail, err};
use freshet_schema::{Column, POLICIES_MAX, POLICY_BYTES_MAX, PolicyHolder, RowPolicy, Table};

use crate::authorize::{ActiveRoles, Actor, Object, authorize, with_granted};
use crate::catalog::Catalog;
use crate::names;
use crate::privilege::Privilege;
use crate::user::Account;

/// A policy as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicySpec {
    pub name: String,
    /// AS RESTRICTIVE.
    pub is_restrictive: bool,
    pub holder: Account,
    /// TO ROLE.
    pub is_of_role: bool,
    /// The condition, as it is read again in the default `sql_mode`.
    pub text: String,
    /// The columns that it names.
    pub columns: Vec<String>,
}

impl Catalog {
    /// The policies of a table after CREATE ROW POLICY; `None` where it has one of this name
    /// already, and `if_not_exists` is set.
    ///
    /// # Errors
    /// 1146 if the table does not exist, 1054 for an unknown column, 1396 for an account that does
    /// not exist or is not restricted; a name that is taken, and limits.
    pub fn policies_with(
        &self,
        id: TableId,
        spec: &PolicySpec,
        if_not_exists: bool,
    ) -> Result<Option<Vec<RowPolicy>>> {
        let table = self.require(id)?;
        names::check_column(&spec.name)?;
        if table.policies.iter().any(|known| is_named(known, &spec.name)) {
            if if_not_exists {
                return Ok(None);
            }
            bail!(
                PolicyExists,
                "Row policy '{}' already exists on table '{}'",
                spec.name,
                table.name
            );
        }
        self.check_holder(spec)?;
        if table.policies.len() >= POLICIES_MAX {
            bail!(TooLarge, "table '{}' has {POLICIES_MAX} policies, the limit", table.name);
        }
        if spec.text.len() > POLICY_BYTES_MAX {
            bail!(
                TooLong,
                "The condition of row policy '{}' has {} bytes, limit {POLICY_BYTES_MAX}",
                spec.name,
                spec.text.len()
            );
        }
        let schema = table.schema();
        let id = |name: &String| {
            let at = schema.position(name);
            let at = at.ok_or_else(|| err!(UnknownColumn, "Unknown column '{name}' in 'USING'"))?;
            Ok(schema.columns[at].id)
        };
        let columns = spec.columns.iter().map(id).collect::<Result<Vec<_>>>()?;
        let Account { name, host } = spec.holder.clone();
        let new = RowPolicy {
            name: spec.name.clone(),
            is_restrictive: spec.is_restrictive,
            holder: PolicyHolder { name, host, is_role: spec.is_of_role },
            text: spec.text.clone(),
            columns,
        };
        Ok(Some(table.policies.iter().cloned().chain([new]).collect()))
    }

    /// Checks that a policy has somebody whom it restricts.
    fn check_holder(&self, spec: &PolicySpec) -> Result<()> {
        let holder = &spec.holder;
        let Some(user) = self.user(holder) else {
            bail!(CannotUser, "Operation CREATE ROW POLICY failed for {holder}: it does not exist");
        };
        if spec.is_of_role && !user.locked {
            bail!(CannotUser, "Operation CREATE ROW POLICY failed for {holder}: it is no role");
        }
        if is_exempt(self, Actor { account: holder, roles: ActiveRoles::These(&[]) }) {
            bail!(
                CannotUser,
                "Operation CREATE ROW POLICY failed for {holder}: no policy restricts root and \
                 accounts with SUPER"
            );
        }
        Ok(())
    }

    /// The policies of a table without the one of this name; `None` where it has none such that is
    /// of the holder, if one is given.
    ///
    /// # Errors
    /// 1146 if the table does not exist.
    pub fn policies_without(
        &self,
        id: TableId,
        name: &str,
        holder: Option<&Account>,
    ) -> Result<Option<Vec<RowPolicy>>> {
        let mut policies = self.require(id)?.policies.clone();
        let is_it = |policy: &RowPolicy| {
            is_named(policy, name) && holder.is_none_or(|holder| is_of(policy, holder))
        };
        let Some(at) = policies.iter().position(is_it) else { return Ok(None) };
        policies.remove(at);
        Ok(Some(policies))
    }
}

fn is_named(policy: &RowPolicy, name: &str) -> bool {
    policy.name.eq_ignore_ascii_case(name)
}

fn is_of(policy: &RowPolicy, account: &Account) -> bool {
    policy.holder.name == account.name && policy.holder.host == account.host
}

/// Whether no policy restricts `actor`: root, and who has SUPER.
fn is_exempt(catalog: &Catalog, actor: Actor<'_>) -> bool {
    *actor.account == Account::root()
        || authorize(catalog, actor, Privilege::Super, Object::Server).is_ok()
}

/// The policies that restrict `actor`: its own, and those of all roles that were granted to it.
/// They need not be active, or SET ROLE NONE would free of them.
fn restricting<'t>(catalog: &Catalog, actor: Actor<'_>, table: &'t Table) -> Vec<&'t RowPolicy> {
    if table.policies.is_empty() || is_exempt(catalog, actor) {
        return Vec::new();
    }
    let roles = catalog.user(actor.account).into_iter().flat_map(|user| &user.roles);
    let roles = roles.flat_map(|granted| with_granted(catalog, &granted.role)).collect::<Vec<_>>();
    let holds = |policy: &&RowPolicy| {
        is_of(policy, actor.account) || roles.iter().any(|role| is_of(policy, &role.account))
    };
    table.policies.iter().filter(holds).collect()
}

/// Whether policies hide rows of the table from `actor`.
pub fn is_restricted(catalog: &Catalog, actor: Actor<'_>, table: &Table) -> bool {
    !restricting(catalog, actor, table).is_empty()
}

/// The condition of the rows that `actor` sees of a table; `None` if these are all of them.
pub fn row_filter(catalog: &Catalog, actor: Actor<'_>, table: &Table) -> Option<String> {
    let policies = restricting(catalog, actor, table);
    let of = |is_restrictive: bool| {
        let some = policies.iter().filter(move |policy| policy.is_restrictive == is_restrictive);
        some.map(|policy| format!("({})", policy.text)).collect::<Vec<_>>()
    };
    let (permissive, mut all) = (of(false), of(true));
    if !permissive.is_empty() {
        all.push(format!("({})", permissive.join(" OR ")));
    }
    (!all.is_empty()).then(|| all.join(" AND "))
}

/// Whether policies restrict this account or role. Those of tables in the recycle bin do not count:
/// nobody could drop them.
pub(crate) fn is_bound(catalog: &Catalog, account: &Account) -> bool {
    let mut listed = catalog.tables().filter(|table| !table.unlisted);
    listed.any(|table| table.policies.iter().any(|policy| is_of(policy, account)))
}

/// Refuses to drop or rename a column that a policy reads.
pub(crate) fn check_unnamed(column: &Column, policies: &[RowPolicy]) -> Result<()> {
    match policies.iter().find(|policy| policy.columns.contains(&column.id)) {
        None => Ok(()),
        Some(policy) => bail!(
            ColumnOfPolicy,
            "Row policy '{}' reads column '{}', hence column cannot be dropped or renamed: DROP \
             ROW POLICY first",
            policy.name,
            column.name
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Definition;
    use crate::test::{meta, spec};
    use crate::user::{AuthData, GrantObject, GrantedRole, User};
    use crate::{Meta, SchemaChange};

    fn put(meta: &Meta, user: User) {
        meta.change(|_| {
            let change = move |catalog: &mut Catalog| catalog.put_user(user.clone());
            Ok((Some(crate::meta::Change::of_catalog(change)), ()))
        })
        .unwrap();
    }

    fn create(meta: &Meta, id: TableId, name: &str, restricts: bool, to: &str) -> Result<()> {
        let spec = PolicySpec {
            name: name.to_owned(),
            is_restrictive: restricts,
            holder: Account::anywhere(to),
            is_of_role: to.starts_with('r'),
            text: format!("name = '{name}'"),
            columns: vec!["name".to_owned()],
        };
        let policies = meta.catalog().policies_with(id, &spec, false)?;
        meta.define(id, Definition::Policies(policies.expect("it is new")));
        Ok(())
    }

    #[test]
    fn policies_of_a_reader_are_joined_whatever_roles_are_active() {
        let meta = meta();
        meta.create_database("d", None, None, false).unwrap();
        meta.create_table("d", &spec("t")).unwrap();
        let id = meta.catalog().table("d", "t").unwrap().id;
        let account = |name: &str| Account::anywhere(name);
        let user = |name: &str| User::new(account(name), AuthData::default());
        let has = |role: &str| vec![GrantedRole { role: account(role), admin: false }];
        put(&meta, User { locked: true, ..user("r1") });
        put(&meta, User { locked: true, roles: has("r1"), ..user("r2") });
        put(&meta, User { roles: has("r2"), ..user("app") });
        put(&meta, user("other"));
        let all = crate::Privileges::NONE.with(Privilege::Super);
        put(&meta, user("boss").with_grant(GrantObject::Server, all));
        let made = |name: &str, restricts: bool, to: &str| {
            create(&meta, id, name, restricts, to).map_err(|error| error.code().errno())
        };
        assert_eq!(made("a", false, "app"), Ok(()));
        assert_eq!(made("A", false, "app"), Err(1105));
        assert_eq!(made("b", false, "r1"), Ok(()));
        assert_eq!(made("c", true, "r2"), Ok(()));
        for nobody in ["root", "boss", "missing", "rmissing"] {
            assert_eq!(made("x", true, nobody), Err(1396), "{nobody}");
        }
        let catalog = meta.catalog();
        let table = catalog.table("d", "t").unwrap();
        let filter = |name: &str| {
            let account = Account::anywhere(name);
            row_filter(&catalog, Actor { account: &account, roles: ActiveRoles::These(&[]) }, table)
        };
        let joined = "(name = 'c') AND ((name = 'a') OR (name = 'b'))";
        assert_eq!(filter("app").as_deref(), Some(joined));
        assert_eq!((filter("other"), filter("boss"), filter("root")), (None, None, None));

        let rename = SchemaChange::RenameColumn { from: "name".to_owned(), to: "l".to_owned() };
        assert!(catalog.altered(id, &[rename]).unwrap_err().message().contains("Row policy 'a'"));
        let drop = |name: &str, holder: Option<&str>| {
            let holder = holder.map(Account::anywhere);
            catalog.policies_without(id, name, holder.as_ref()).unwrap().map(|left| left.len())
        };
        assert_eq!((drop("B", None), drop("b", Some("app"))), (Some(2), None));
        let dropped =
            meta.change_users(|users| users.drop_user(&Account::root(), &account("app"), false));
        assert!(dropped.unwrap_err().message().contains("row policies restrict it"));
        meta.checkpoint().unwrap();
        assert_eq!(Catalog::load(meta.store.as_ref()).unwrap(), *meta.catalog());
    }
}
