/** Anchors in a bucket of a real S3 server with Object Lock. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request as requestHttp } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { anchorBucket } from "../../../../services/watchdog/anchors/anchor-bucket.ts";
import { anchorFields, readAnchorSettings } from "../../../../services/watchdog/anchors/anchor-settings.ts";
import { bucketSettingsSchema } from "../../../../shared/protocol/anchor-bucket-settings.ts";
import { readConfig } from "../../../../shared/runtime/settings/config.ts";
import { hasObjectStore, OBJECT_STORE_KEYS, ObjectStore } from "../../../harness/anchors/object-store.ts";

const never = new AbortController().signal;
const DAY_MS = 86_400_000;

describe.skipIf(!hasObjectStore)("a bucket", () => {
  let server: ObjectStore;
  let bucket: string;
  beforeAll(async () => {
    server = await ObjectStore.start();
    bucket = await server.makeBucket("locked");
  }, 120_000);
  afterAll(() => server?.close());

  const nowMs = Date.now();
  const keeperOf = (url: string, more: Record<string, unknown> = {}) =>
    anchorBucket(bucketSettingsSchema.parse({ url, prefix: "production/", ...OBJECT_STORE_KEYS, ...more }), {
      everyMs: 1_000,
      now: () => nowMs,
    });
  const log = (size: number, checkpoint = `checkpoint ${size}\n`) => ({
    tenant: "default",
    size,
    checkpoint,
  });
  const read = async (object: string) => (await server.client.fetch(object)).text();

  test("keeps a checkpoint under a lock that is read back", async () => {
    const made = await keeperOf(bucket, { retain_days: 30 }).keep(log(7), never);
    expect(made).toMatchObject({ checkpoint: "checkpoint 7\n", at: new Date(nowMs).toISOString() });
    expect(made.object).toContain("/locked/production/default/0000000000000007-");
    expect(await read(made.object!)).toBe("checkpoint 7\n");
    expect(Math.abs(Date.parse(made.retained_until!) - nowMs - 30 * DAY_MS)).toBeLessThan(2_000);
  });

  test("makes no second object of the same checkpoint", async () => {
    const keeper = keeperOf(bucket);
    const first = await keeper.keep(log(8), never);
    const again = await keeper.keep(log(8), never);
    expect(again.retained_until).toBe(first.retained_until);
    const versions = await (await server.client.fetch(`${bucket}?versions`)).text();
    expect(versions.split("0000000000000008-").length - 1).toBe(1);
  });

  test("keeps the object from those who may delete, and gets another one for another checkpoint", async () => {
    const keeper = keeperOf(bucket);
    const { object } = await keeper.keep(log(9), never);
    const removed = await server.client.fetch(object!, { method: "DELETE" });
    expect(removed.status).toBe(403);
    expect(await read(object!)).toBe("checkpoint 9\n");
    const { object: other } = await keeper.keep(log(9, "written again\n"), never);
    expect(await read(object!)).toBe("checkpoint 9\n");
    expect(await read(other!)).toBe("written again\n");
  });

  test("without Object Lock, without the bucket, and of a server that ignores locks is refused", async () => {
    const plain = await server.makeBucket("plain", { hasLock: false });
    await expect(keeperOf(plain).keep(log(1), never)).rejects.toThrow("no Object Lock");
    await expect(keeperOf(`${server.url}/none`).keep(log(1), never)).rejects.toThrow("no Object Lock");
    // A proxy in front of the server removes the headers of the lock from requests, as an old server ignores them.
    const proxy = createServer((incoming, response) => {
      const headers = Object.fromEntries(
        Object.entries(incoming.headers).filter(([name]) => !name.startsWith("x-amz-object-lock")),
      );
      const passed = requestHttp(
        server.url + incoming.url,
        { method: incoming.method, headers },
        (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(response);
        },
      );
      incoming.pipe(passed);
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    try {
      const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/locked`;
      await expect(keeperOf(url).keep(log(10), never)).rejects.toThrow("without a lock");
    } finally {
      proxy.close();
    }
  });

  test("that is not there fails at once, and a stop ends a request that hangs", async () => {
    await expect(keeperOf("http://127.0.0.1:1/locked").keep(log(1), never)).rejects.toThrow();
    const hanging = createServer(() => {});
    await new Promise<void>((resolve) => hanging.listen(0, "127.0.0.1", resolve));
    try {
      const url = `http://127.0.0.1:${(hanging.address() as AddressInfo).port}/locked`;
      const stopping = new AbortController();
      const kept = keeperOf(url).keep(log(1), stopping.signal);
      hanging.once("request", () => stopping.abort());
      await expect(kept).rejects.toMatchObject({ name: "AbortError" });
    } finally {
      hanging.closeAllConnections();
      hanging.close();
    }
  });
});

describe("the settings file", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-bucket-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const settingsOf = (content: object, mode = 0o600) => {
    const path = join(folder, "bucket.json");
    writeFileSync(path, JSON.stringify(content));
    chmodSync(path, mode);
    return readAnchorSettings(readConfig(anchorFields, { FLEET_AUDIT_ANCHOR_BUCKET: path })).bucket;
  };
  const whole = { url: "https://s3.example.org/anchors", ...OBJECT_STORE_KEYS };

  test("has defaults", () => {
    expect(settingsOf(whole)).toEqual({ ...whole, prefix: "", region: "us-east-1", retain_days: 2_192 });
  });

  test.each([
    [{ ...whole, url: "https://s3.example.org" }, "whose path is the bucket"],
    [{ ...whole, url: "https://user:word@s3.example.org/anchors" }, "whose path is the bucket"],
    [{ ...whole, prefix: "no-end" }, "prefix"],
    [{ ...whole, retain_days: 0 }, "retain_days"],
    [{ ...whole, secret: "x" }, "secret"],
  ])("refuses %j", (content, problem) => {
    expect(() => settingsOf(content)).toThrow(problem);
  });

  test("that other users can read is refused, and no message repeats the secret", () => {
    expect(() => settingsOf(whole, 0o640)).toThrow("chmod 600");
    expect(() => settingsOf({ ...whole, secret_access_key: 7 })).toThrow(/secret_access_key(?!.*\b7\b)/s);
  });
});
