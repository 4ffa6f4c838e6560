// Knex and Sequelize on mysql2: schemas, migrations, queries, transactions, upserts.
"use strict";
const knexOf = require("knex");
const { DataTypes, Op, Sequelize } = require("sequelize");
const { assert, freshDatabase, raises, server } = require("./common.js");

async function knexClient() {
  const database = await freshDatabase("knex");
  const knex = knexOf({ client: "mysql2", connection: { ...server, database }, pool: { min: 0 } });
  await knex.schema.createTable("users", (table) => {
    table.increments("id");
    table.string("name", 100).notNullable().index();
    table.decimal("balance", 12, 2).defaultTo(0);
    table.boolean("active").defaultTo(true);
    table.json("facts");
    table.timestamps(true, true);
  });
  assert.equal(await knex.schema.hasTable("users"), true);
  assert.equal(await knex.schema.hasTable("nope"), false);
  await knex.schema.alterTable("users", (table) => table.integer("age"));
  assert.equal(await knex.schema.hasColumn("users", "age"), true);

  const [id] = await knex("users").insert({ name: "Ada", age: 36, facts: { a: 1 } });
  await knex.batchInsert("users", Array.from({ length: 500 },
    (_, i) => ({ name: `n${i}`, age: i % 50, balance: i / 4 })), 100);
  const ada = await knex("users").where({ id }).first();
  assert.deepEqual([ada.name, ada.age, ada.active, ada.facts], ["Ada", 36, 1, { a: 1 }]);
  assert.ok(ada.created_at instanceof Date);
  const ages = await knex("users").whereIn("age", [1, 2]).groupBy("age").orderBy("age")
    .select("age").count("* as n").sum("balance as total");
  assert.deepEqual(ages.map((row) => [row.age, row.n, row.total]),
    [[1, 10, "565.00"], [2, 10, "567.50"]]);
  assert.equal(await knex("users").where("age", ">", 40).update({ active: false }), 90);
  assert.equal(await knex("users").where({ name: "n7" }).del(), 1);
  await knex("users").insert({ id, name: "Ada L" }).onConflict("id").merge(["name"]);
  assert.equal((await knex("users").where({ id }).first()).name, "Ada L");
  await knex("users").insert({ id, name: "nobody" }).onConflict("id").ignore();

  await assert.rejects(knex.transaction(async (trx) => {
    await trx("users").del();
    await trx.transaction((inner) => inner("users").insert({ name: "inner" }));
    throw new Error("undone");
  }), /undone/);
  assert.equal((await knex("users").count("* as n"))[0].n, 500);
  await raises(1146, knex("nope").select());
  assert.deepEqual(Object.keys(await knex("users").columnInfo()).slice(0, 2), ["id", "name"]);

  const source = {
    getMigrations: async () => ["one", "two", "three"],
    getMigrationName: (name) => name,
    getMigration: async (name) => ({
      one: {
        up: (k) => k.schema.createTable("one", (table) => table.uuid("id").primary()),
        down: (k) => k.schema.dropTable("one"),
      },
      two: {
        up: (k) => k.schema.createTable("two", (table) => {
          table.uuid("one").references("id").inTable("one").onDelete("CASCADE");
          table.string("label", 50).unique();
        }),
        down: (k) => k.schema.dropTable("two"),
      },
      three: {
        up: (k) => k.schema.alterTable("two", (table) => {
          table.dropForeign("one");
          table.dropUnique("label");
          table.renameColumn("label", "title");
        }),
        down: (k) => k.schema.alterTable("two", (table) => {
          table.renameColumn("title", "label");
          table.unique("label");
          table.foreign("one").references("one.id");
        }),
      },
    }[name]),
  };
  const [, ran] = await knex.migrate.latest({ migrationSource: source });
  assert.deepEqual(ran, ["one", "two", "three"]);
  await knex.migrate.down({ migrationSource: source });
  await raises(1826, knex.schema.alterTable("two",
    (table) => table.foreign("one", "two_one_foreign").references("one.id")));
  await knex.migrate.rollback({ migrationSource: source }, true);
  assert.equal(await knex.schema.hasTable("two"), false);
  await knex.destroy();
}

async function sequelizeClient() {
  const database = await freshDatabase("sequelize");
  const sequelize = new Sequelize(database, server.user, "", { host: server.host,
    port: server.port, dialect: "mysql", logging: false });
  const User = sequelize.define("User", { name: { type: DataTypes.STRING, allowNull: false },
    age: DataTypes.INTEGER, at: DataTypes.DATE(6), price: DataTypes.DECIMAL(10, 2) });
  const Note = sequelize.define("Note", { text: DataTypes.TEXT });
  User.hasMany(Note);
  Note.belongsTo(User);
  await sequelize.sync({ force: true });
  await sequelize.sync({ alter: true });
  const schemas = sequelize.getQueryInterface();
  const [key, ...others] = await schemas.getForeignKeyReferencesForTable("Notes");
  assert.deepEqual([key.columnName, key.referencedTableName, others], ["UserId", "Users", []]);
  const at = new Date("2024-02-29T12:00:00.123Z");
  const ada = await User.create({ name: "Ada", age: 36, at, price: "1.50" });
  await User.bulkCreate(Array.from({ length: 100 }, (_, i) => ({ name: `n${i}`, age: i })));
  await ada.createNote({ text: "first" });
  const found = await User.findOne({ where: { name: "Ada" }, include: Note });
  assert.deepEqual([found.at, found.price, found.Notes[0].text], [at, "1.50", "first"]);
  assert.equal(await User.count({ where: { age: { [Op.between]: [10, 19] } } }), 10);
  await User.upsert({ id: ada.id, name: "Ada L" });
  assert.equal((await User.findByPk(ada.id)).name, "Ada L");
  await assert.rejects(sequelize.transaction(async (transaction) => {
    await User.destroy({ where: {}, transaction });
    throw new Error("undone");
  }), /undone/);
  assert.equal(await User.count(), 101);
  assert.deepEqual((await schemas.showAllTables()).sort(), ["Notes", "Users"]);
  assert.equal((await User.describe()).name.allowNull, false);
  await sequelize.close();
}

knexClient().then(sequelizeClient);
