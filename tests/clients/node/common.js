// What the tests of Node.js clients share: where the server is, and a fresh database.
"use strict";
const assert = require("node:assert/strict");
const mysql = require("mysql2/promise");

const server = {
  host: "127.0.0.1", port: Number(process.env.CLIENT_MYSQL_PORT), user: "root", password: "",
};

// Makes the database of one client anew and returns its name.
async function freshDatabase(name) {
  const database = `client_${name}`;
  const admin = await mysql.createConnection(server);
  await admin.query(`DROP DATABASE IF EXISTS ${database}`);
  await admin.query(`CREATE DATABASE ${database}`);
  await admin.end();
  return database;
}

// Checks that a promise fails with this MySQL error number.
async function raises(errno, promise) {
  await assert.rejects(promise, (error) => {
    const found = error.errno ?? error.parent?.errno;
    assert.equal(found, errno, error.stack);
    return true;
  });
}

module.exports = { assert, freshDatabase, raises, server };
