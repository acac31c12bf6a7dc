// A real server that fails: killed or paused, under load, at the start, with open watches. Each call gets a
// true answer by its deadline, and when the server is back the same open store works again by itself.
import { execFile } from "node:child_process";
import { once as event } from "node:events";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFoundationdb } from "../../../shared/store/drivers/foundationdb.ts";
import { type Bytes, type Store, StoreError } from "../../../shared/store/store.ts";
import {
  type FoundationdbControl,
  type FoundationdbServer,
  missingFoundationdb,
  startFoundationdb,
} from "../../harness/stores/foundationdb.ts";

const run = promisify(execFile);
const missing = await missingFoundationdb();
const DEADLINE_MS = 2_000;
/** A busy machine may notice a deadline late; a hang is longer than that. */
const LATE_MS = 30_000;
const WRITERS = 20;

/** The faults, each with its begin and its end. */
const FAULTS: [
  name: string,
  begin: (c: FoundationdbControl) => unknown,
  end: (c: FoundationdbControl) => unknown,
][] = [
  ["killed", (control) => control.kill(), (control) => control.restart()],
  ["paused", (control) => control.pause(), (control) => control.continue()],
];

const key = (name: string) => Buffer.from(`\x02faults/${name}`);
const options = { label: "faults", deadlineMs: DEADLINE_MS, onUnknown: "unsafe" } as const;

interface Outcome {
  readonly key: Bytes;
  readonly ms: number;
  /** Undefined when it was committed. */
  readonly error: StoreError | undefined;
}

async function writeOnce(store: Store, name: string): Promise<Outcome> {
  const startedAt = performance.now();
  const outcome = (error?: StoreError) => ({ key: key(name), ms: performance.now() - startedAt, error });
  try {
    await store.transact(options, async (tx) => {
      await tx.get(key("guard"));
      tx.set(key(name), Buffer.from(name));
    });
    return outcome();
  } catch (error) {
    if (error instanceof StoreError) return outcome(error);
    throw error;
  }
}

describe.skipIf(missing !== undefined)("a server that fails", () => {
  let server: FoundationdbServer;
  let control: FoundationdbControl | undefined;
  let store: Store;
  const open = () => openFoundationdb({ clusterFile: server.clusterFile });

  beforeAll(async () => {
    server = await startFoundationdb();
    control = server.control;
    store = await open();
  });
  afterAll(async () => {
    await control?.continue();
    await store?.close({ drainMs: 1_000 });
    await server?.stop();
  });

  test.each(FAULTS)(
    "%s under load: gives true answers by the deadline, and recovers",
    async (name, begin, end) => {
      if (control === undefined) return;
      const outcomes: Outcome[] = [];
      let stop = false;
      let look = () => {};
      const until = (reached: () => boolean) =>
        new Promise<void>((resolve) => {
          look = () => reached() && resolve();
          look();
        });
      const writer = async (_: unknown, n: number) => {
        for (let i = 0; !stop; i += 1) {
          outcomes.push(await writeOnce(store, `${name}/${n}/${i}`));
          look();
        }
      };
      const writers = Array.from({ length: WRITERS }, writer);
      const committed = () => outcomes.filter(({ error }) => error === undefined).length;
      await until(() => committed() >= 200);
      await begin(control);
      await until(() => outcomes.filter(({ error }) => error !== undefined).length >= WRITERS);
      expect((await store.health({ timeoutMs: 500 })).ok).toBe(false);
      await end(control);
      const before = committed();
      await until(() => committed() >= before + 200);
      stop = true;
      await Promise.all(writers);

      expect(Math.max(...outcomes.map(({ ms }) => ms))).toBeLessThan(DEADLINE_MS + LATE_MS);
      for (const { error } of outcomes) {
        if (error !== undefined) expect(["deadline", "commit_unknown", "unavailable"]).toContain(error.kind);
      }
      const found = await present(outcomes.map((outcome) => outcome.key));
      for (const [i, { error }] of outcomes.entries()) {
        if (error === undefined) expect(found[i]).toBe(true);
        if (error?.committed === "no") expect(found[i]).toBe(false);
      }
    },
    120_000,
  );

  async function present(keys: readonly Bytes[]): Promise<boolean[]> {
    const found: boolean[] = [];
    for (let from = 0; from < keys.length; from += 500) {
      const values = await store.read(options, (reader) => reader.getMany(keys.slice(from, from + 500)));
      found.push(...values.map((value) => value !== undefined));
    }
    return found;
  }

  test("down when the store is opened: answers by the deadline, and works as soon as it is up", async () => {
    if (control === undefined) return;
    await control.kill();
    const early = await open();
    try {
      const { error, ms } = await writeOnce(early, "early/1");
      expect(error?.kind).toMatch(/^(deadline|commit_unknown)$/);
      expect(ms).toBeLessThan(DEADLINE_MS + LATE_MS);
      const waiting = early.transact({ ...options, deadlineMs: 60_000, onUnknown: "safe" }, async (tx) =>
        tx.set(key("early/2"), Buffer.of(1)),
      );
      await control.restart();
      expect((await waiting).stamp).toHaveLength(10);
      expect((await writeOnce(early, "early/3")).error).toBeUndefined();
    } finally {
      await early.close({ drainMs: 1_000 });
    }
  }, 120_000);

  test.each(FAULTS)(
    "%s during a wait for a change: the poll wakes, later an event does",
    async (name, begin, end) => {
      if (control === undefined) return;
      const signal = new AbortController().signal;
      const watched = key(`watched/${name}`);
      const longWait = store.changed(watched, undefined, { signal, pollMs: 60_000 });
      await begin(control);
      const startedAt = performance.now();
      await store.changed(watched, undefined, { signal, pollMs: 300 });
      expect(performance.now() - startedAt).toBeLessThan(300 + LATE_MS);
      await end(control);
      await writeUntilCommitted(watched);
      await longWait; // its watch survived the fault, or it noticed the fault and read again
    },
    120_000,
  );

  async function writeUntilCommitted(at: Bytes): Promise<void> {
    await store.transact({ ...options, deadlineMs: 60_000, onUnknown: "safe" }, async (tx) => {
      tx.set(at, Buffer.of(1));
    });
  }
});

const driver = new URL("../../../shared/store/drivers/foundationdb.ts", import.meta.url).href;

describe.skipIf(missing !== undefined)("a process with open watches and reads", () => {
  let server: FoundationdbServer;
  beforeAll(async () => {
    server = await startFoundationdb();
  });
  afterAll(() => server?.stop());

  const program = (end: string) => `
    const { openFoundationdb } = await import(${JSON.stringify(driver)});
    const store = await openFoundationdb({ clusterFile: ${JSON.stringify(server.clusterFile)} });
    const signal = new AbortController().signal;
    const key = Buffer.from([2, 9]);
    const waits = Array.from({ length: 50 }, () => store.changed(key, undefined, { signal, pollMs: 60_000 }));
    await store.health({ timeoutMs: 5_000 }); // the watches were requested before it
    const look = () => store.read({ label: "look", deadlineMs: 5_000 }, (reader) => reader.get(key));
    const reads = Array.from({ length: 500 }, () => look().catch(() => {}));
    ${end}
  `;
  const exits = (end: string) =>
    run(process.execPath, ["--input-type=module", "--eval", program(end)], { timeout: 20_000 });

  test.each([
    ["closes its store", "await store.close({ drainMs: 0 }); await Promise.all([...waits, ...reads]);"],
    ["exits without closing", "process.exit(0);"],
    [
      "exits as a process that got SIGTERM",
      'process.once("SIGTERM", () => process.exit(0)); process.kill(process.pid, "SIGTERM");',
    ],
  ])(
    "ends cleanly when it %s",
    async (_, end) => {
      await expect(exits(end)).resolves.toMatchObject({ stderr: "" });
    },
    60_000,
  );

  test("ends cleanly when it closes its store while the server does not answer", async () => {
    const { control } = server;
    if (control === undefined) return;
    const paused =
      'process.stdout.write("open"); process.stdin.once("data", async () => { await store.close({ drainMs: 200 }); process.stdin.destroy(); });';
    const ended = exits(paused);
    await event(ended.child.stdout!, "data");
    await control.pause();
    try {
      ended.child.stdin!.write("close");
      await expect(ended).resolves.toMatchObject({ stderr: "" });
    } finally {
      await control.continue();
    }
  }, 60_000);
});
