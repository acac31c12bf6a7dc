// `fleet import langgraph --postgres`: threads that LangGraph's own PostgresSaver has written into a real server.

import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FleetSaver } from "../../../shared/sdk/langgraph/saver.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { postgresProblem, startPostgres, type TestPostgres } from "../../harness/stores/postgres.ts";
import { callCli } from "../../services/cli/call.ts";
import { contentsOf, failingGraph, threadConfig } from "./threads.ts";

const problem = postgresProblem();
if (problem !== null) process.stderr.write(`The import from Postgres is not tested: ${problem}.\n`);

describe.skipIf(problem !== null)("fleet import langgraph --postgres", { timeout: 180_000 }, () => {
  let fleet: TestFleet;
  let server: TestPostgres;
  let database: pg.Client;

  const run = (...args: string[]) =>
    callCli(["import", "langgraph", ...args, "--timeout", "30s"], {
      env: { FLEET_URL: fleet.url, FLEET_HOME: fleet.home, FLEET_SPOOL_DIR: `${fleet.home}/spool` },
    });
  const saver = async (agent: string, tenant = "default") =>
    new FleetSaver(await fleet.client(agent, tenant));

  async function report(...args: string[]) {
    const { exit, out, err } = await run("--postgres", server.url, ...args, "--json");
    expect(err).toBe("");
    expect(out).not.toContain(server.password);
    return { exit, ...JSON.parse(out) };
  }

  /** A thread whose graph has failed in one of two steps. */
  async function written(thread: string, schema: string): Promise<unknown[]> {
    const own = PostgresSaver.fromConnString(server.url, { schema });
    await own.setup();
    const graph = failingGraph(own as never, [], () => true);
    await expect(graph.invoke({ untouched: "u" }, threadConfig(thread))).rejects.toThrow("not there");
    const contents = await contentsOf(own as never, thread);
    await own.end();
    return contents;
  }

  beforeAll(async () => {
    [fleet, server] = await Promise.all([startFleet({ FLEET_GATEWAY_PORT: "-1" }), startPostgres()]);
    database = new pg.Client({ connectionString: server.url });
    await database.connect();
  }, 120_000);
  afterAll(async () => {
    await database?.end();
    await Promise.all([fleet?.stop(), server?.stop()]);
  });

  test("a graph that failed in one of two steps continues with FleetSaver, and repeats only that step", async () => {
    const there = await written("order-7", "graphs");
    expect(await report("--schema", "graphs", "--dry-run")).toMatchObject({ imported: ["order-7"] });
    expect(await report("--schema", "graphs")).toMatchObject({ exit: 0, imported: ["order-7"], refused: [] });
    const own = await saver("graph-1");
    expect(await contentsOf(own, "order-7")).toEqual(there);
    expect(await report("--schema", "graphs")).toMatchObject({ identical: ["order-7"], entries: 0 });
    const runs: string[] = [];
    const { done, seen, bytes, untouched } = await failingGraph(own, runs, () => false).invoke(
      null,
      threadConfig("order-7"),
    );
    expect(runs).toEqual(["right", "last"]);
    expect(done).toEqual(["first", "left", "right", "last"]);
    expect([seen, bytes, untouched]).toEqual([new Set(["ü"]), { raw: new Uint8Array([0, 255]) }, "u"]);
  });

  test.each([
    ["a value that is lost", "DELETE FROM bad.checkpoint_blobs WHERE channel = 'seen'", "checkpoint_blobs"],
    [
      "a value without bytes",
      "UPDATE bad.checkpoint_blobs SET blob = NULL WHERE channel = 'seen'",
      "no bytes",
    ],
    [
      "another serializer",
      "UPDATE bad.checkpoint_blobs SET type = 'msgpack' WHERE channel = 'seen'",
      "msgpack",
    ],
    ["a damaged write", "UPDATE bad.checkpoint_writes SET blob = '\\x7b'", "no JSON"],
    ["a checkpoint of no known form", "UPDATE bad.checkpoints SET checkpoint = '{\"v\": 4}'", "expected"],
  ])("a thread with %s is reported and left out, and the others are imported", async (name, damage, text) => {
    await database.query("DROP SCHEMA IF EXISTS bad CASCADE");
    await written("bad", "bad");
    await database.query(damage);
    await written("good", "bad");
    const tenant = `tenant-${name.replaceAll(" ", "-")}`;
    const found = await report("--schema", "bad", "--tenant", tenant);
    const refused = [{ thread: "bad", row: expect.any(String), problem: expect.stringContaining(text) }];
    expect([name, found]).toEqual([name, expect.objectContaining({ exit: 8, imported: ["good"], refused })]);
    expect(await (await fleet.client("looker", tenant)).getTask("langgraph-bad")).toBeNull();
  });

  test("what a graph adds after the import is added by the next one", async () => {
    await written("grown", "grown");
    const rest = await report("--schema", "grown");
    expect(rest).toMatchObject({ exit: 0, imported: ["grown"] });
    const own = PostgresSaver.fromConnString(server.url, { schema: "grown" });
    await failingGraph(own as never, [], () => false).invoke(null, threadConfig("grown"));
    expect(await report("--schema", "grown")).toMatchObject({ exit: 0, continued: ["grown"] });
    expect(await contentsOf(await saver("grown-1"), "grown")).toEqual(
      await contentsOf(own as never, "grown"),
    );
    await own.end();
  });

  test("no message has the password, and other databases are refused", async () => {
    const encoded = encodeURIComponent(server.password);
    const secrets = [server.password, encoded, "wrong-secret"];
    const wrong = server.url.replace(encoded, "wrong-secret");
    const closed = server.url.replace(/:\d+\/postgres$/, ":1/postgres");
    for (const [url, schema, exit] of [
      [wrong, "public", 64],
      [closed, "public", 64],
      [server.url, "absent", 65],
      [`mysql://root:${encoded}@localhost/graphs`, "public", 64],
      [`postgres://fleet:${encoded}@[`, "public", 64],
    ] as const) {
      for (const json of [[], ["--json"]]) {
        const refused = await run("--postgres", url, "--schema", schema, ...json);
        expect([url, refused.exit]).toEqual([url, exit]);
        for (const secret of secrets) expect(refused.out + refused.err).not.toContain(secret);
      }
    }
    expect((await run()).exit).toBe(64);
    expect((await run("--sqlite", "a.db", "--postgres", server.url)).exit).toBe(64);
  });
});
