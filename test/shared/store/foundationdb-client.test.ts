import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { API_VERSION, optionsOf } from "../../../shared/store/foundationdb/client.ts";

const run = promisify(execFile);
const driver = new URL("../../../shared/store/drivers/foundationdb.ts", import.meta.url).href;

// Opens the store in a separate process and prints the result.
const OPEN = `
  const { openFoundationdb } = await import(${JSON.stringify(driver)});
  const error = await openFoundationdb().then(() => undefined, (reason) => reason);
  console.log(JSON.stringify({ name: error?.name, kind: error?.kind, message: error?.message, ...error?.details }));
`;

async function openedIn(program: string, env: Record<string, string> = {}): Promise<Record<string, unknown>> {
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program], {
    env: { ...process.env, ...env },
  });
  return JSON.parse(stdout);
}

function expectInstallHint(opened: Record<string, unknown>): void {
  expect(opened).toMatchObject({ name: "StoreError", kind: "unavailable", api_version: 720 });
  expect(opened.install).toEqual([
    expect.stringContaining("libfdb_c 7.3"),
    expect.stringContaining("npm package foundationdb"),
  ]);
}

test("a client library that cannot be loaded is one error with installation instructions", async () => {
  // The addon's own loader gets a file that is not a library: the same failure as without libfdb_c.
  const directory = await mkdtemp(join(tmpdir(), "fleet-fdb-"));
  try {
    const place = join(directory, "prebuilds", `${process.platform}-${process.arch}`);
    await mkdir(place, { recursive: true });
    await writeFile(join(place, "node.napi.node"), "not a library");
    const opened = await openedIn(OPEN, { FOUNDATIONDB_PREBUILD: directory });
    expectInstallHint(opened);
    expect(opened.reason).toContain("ERR_DLOPEN_FAILED");
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("an absent npm package is the same error", async () => {
  const absent = `
    import { registerHooks } from "node:module";
    registerHooks({
      resolve(name, context, next) { return next(name === "foundationdb" ? "foundationdb-is-absent" : name, context); },
    });
  `;
  const opened = await openedIn(`${absent}${OPEN}`);
  expectInstallHint(opened);
  expect(opened.reason).toContain("ERR_MODULE_NOT_FOUND");
});

test("a worker thread is refused before it can overwrite the main thread's handles", async () => {
  const inWorker = `
    import { Worker } from "node:worker_threads";
    new Worker(${JSON.stringify(OPEN)}, { eval: true });
  `;
  const opened = await openedIn(inWorker);
  expect(opened).toMatchObject({
    kind: "invalid",
    message: "FoundationDB can be used on the main thread only",
  });
});

test("the API version is the newest that the npm package accepts", () => {
  expect(API_VERSION).toBe(720);
});

const codes = { Timeout: 500, PriorityBatch: 201 };

test.each([
  ["the timeout is set on every transaction", { timeoutMs: 1_500, priority: "default" }, [[500, 1_500]]],
  [
    "batch priority is set in addition",
    { timeoutMs: 1_500, priority: "batch" },
    [
      [500, 1_500],
      [201, null],
    ],
  ],
  ["a part of a millisecond counts as one", { timeoutMs: 0.2, priority: "default" }, [[500, 1]]],
  [
    "no time left is never the zero that means no timeout",
    { timeoutMs: -5, priority: "default" },
    [[500, 1]],
  ],
] as const)("%s", (_name, options, expected) => {
  expect(optionsOf(codes, options)).toEqual(expected);
});
