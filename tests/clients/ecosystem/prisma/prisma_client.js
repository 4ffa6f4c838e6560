// Prisma with its adapter for MySQL: relations, types, errors, transactions, raw statements.
const assert = require("node:assert/strict");
const { PrismaMariaDb } = require("@prisma/adapter-mariadb");
const { PrismaClient } = require("./generated");

const SERVER = {
  host: "127.0.0.1", port: Number(process.env.CLIENT_MYSQL_PORT), user: "root",
  database: "client_prisma", connectionLimit: 3,
};
const DAY = new Date("2024-02-29");
const MOMENT = new Date("2024-02-29T23:59:58.123Z");

async function types(prisma) {
  const posts = [
    { title: "one", price: "1.50", at: MOMENT, stamp: DAY, day: DAY, doc: { a: [1, 2] },
      raw: Buffer.from([0, 255, 39, 92]), ratio: 0.1 },
    { title: "it's \"\u00fc\" \\" },
  ];
  const user = await prisma.user.create({
    data: { email: "ada@x", name: "Ada", posts: { create: posts } },
    include: { posts: { orderBy: { id: "asc" } } },
  });
  const [one, two] = user.posts;
  assert.equal(user.id, 1);
  assert.deepEqual([one.id, two.id], [1n, 2n]);
  assert.equal(one.price.toFixed(2), "1.50");
  assert.deepEqual([one.at, one.stamp, one.day], [MOMENT, DAY, DAY]);
  assert.deepEqual(one.doc, { a: [1, 2] });
  assert.deepEqual([...one.raw], [0, 255, 39, 92]);
  assert.deepEqual([one.ratio, one.published], [0.1, false]);
  assert.equal(two.title, "it's \"\u00fc\" \\");
  assert.deepEqual([two.stamp, two.doc, two.raw, two.ratio], [null, null, null, null]);
  assert.ok(Math.abs(two.at - Date.now()) < 60000);
}

async function queries(prisma) {
  const many = [{ email: "b@x" }, { email: "c@x" }, { email: "ada@x" }];
  assert.deepEqual(await prisma.user.createMany({ data: many, skipDuplicates: true }), { count: 2 });
  const upsert = { where: { email: "b@x" }, update: { name: "B" }, create: { email: "b@x" } };
  assert.equal((await prisma.user.upsert(upsert)).name, "B");
  const found = await prisma.user.findMany({
    where: { OR: [{ posts: { some: { title: { contains: "on" } } } }, { name: null }] },
    orderBy: { id: "desc" }, take: 2, include: { _count: { select: { posts: true } } },
  });
  assert.deepEqual(found.map((user) => [user.email, user._count.posts]), [["c@x", 0], ["ada@x", 2]]);
  const sums = await prisma.post.aggregate({ _count: true, _sum: { price: true } });
  assert.deepEqual([sums._count, sums._sum.price.toFixed(2)], [2, "1.50"]);
  const groups = await prisma.post.groupBy({ by: ["authorId"], _count: { _all: true } });
  assert.deepEqual(groups, [{ authorId: 1, _count: { _all: 2 } }]);
  const inside = await prisma.post.findFirst({ where: { doc: { path: "$.a[1]", equals: 2 } } });
  assert.equal(inside.title, "one");
  const raw = await prisma.$queryRaw`SELECT id, email FROM User WHERE email = ${"b@x"}`;
  assert.deepEqual(raw.map((row) => row.email), ["b@x"]);
}

async function errors(prisma) {
  await assert.rejects(prisma.user.create({ data: { email: "ada@x" } }), { code: "P2002" });
  await assert.rejects(prisma.user.delete({ where: { id: 99 } }), { code: "P2025" });
  await assert.rejects(prisma.$queryRawUnsafe("SELECT * FROM nope"), /1146/);
  const long = { title: "x".repeat(256), author: { connect: { id: 1 } } };
  await assert.rejects(prisma.post.create({ data: long }), { code: "P2000" });
}

async function transactions(prisma) {
  const undone = prisma.$transaction(async (transaction) => {
    await transaction.post.deleteMany({});
    assert.equal(await transaction.post.count(), 0);
    throw new Error("undo");
  });
  await assert.rejects(undone, /undo/);
  assert.equal(await prisma.post.count(), 2);
  const changes = [
    prisma.post.updateMany({ where: { published: false }, data: { published: true } }),
    prisma.post.update({ where: { id: 1n }, data: { price: { increment: 2 } } }),
  ];
  const [many, one] = await prisma.$transaction(changes);
  assert.deepEqual([many.count, one.price.toFixed(2)], [2, "3.50"]);
  const level = { isolationLevel: "Serializable" };
  await prisma.$transaction((transaction) => transaction.post.delete({ where: { id: 2n } }), level);
  assert.equal(await prisma.post.count({ where: { published: true } }), 1);
}

async function main() {
  const prisma = new PrismaClient({ adapter: new PrismaMariaDb(SERVER) });
  await types(prisma);
  await queries(prisma);
  await errors(prisma);
  await transactions(prisma);
  await prisma.$disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
