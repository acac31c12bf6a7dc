// One contract of both places of artifacts: a folder, and a bucket of a real bus.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { UploadPlace } from "../../../shared/artifacts/artifact-store.ts";
import { partBytes } from "./part-bytes.ts";
import { PLACES, type TestPlace } from "./places.ts";

const PROCESSES_MS = 120_000;
const KILLS = 4;
const program = new URL("./putter.program.ts", import.meta.url).pathname;
const fresh = (tenant = "default"): UploadPlace => ({ tenant, upload: uuidv7() });

describe.each(Object.keys(PLACES))("artifacts in a %s", { timeout: PROCESSES_MS }, (name) => {
  let place: TestPlace;
  beforeAll(async () => {
    place = await PLACES[name]!();
  }, PROCESSES_MS);
  afterAll(() => place?.close());

  const listed = async () => {
    const found = [];
    for await (const upload of place.store.list()) found.push(upload);
    return found;
  };

  test("a part comes back as it was stored, its repetition changes nothing, and other bytes are refused", async () => {
    const { store } = place;
    const at = fresh();
    const bytes = partBytes(at.upload, 0);
    expect(await store.get(at, 0)).toBeNull();
    await store.put(at, 0, bytes);
    await store.put(at, 0, bytes);
    await expect(store.put(at, 0, partBytes(at.upload, 1))).rejects.toMatchObject({ code: "CONFLICT" });
    expect(bytes.equals((await store.get(at, 0))!)).toBe(true);
    await store.put(at, 2, Buffer.from("end"));
    await store.sync(at);
    expect(await store.size({ ...at, parts: 3 })).toBe(bytes.length + 3);
    expect((await listed()).filter(({ upload }) => upload === at.upload)).toEqual([{ ...at, parts: 3 }]);
  });

  test("each upload and each tenant has its own parts, and a removal takes those of one upload", async () => {
    const { store } = place;
    const [one, other] = [fresh(), fresh()];
    const foreign = { ...one, tenant: "quokka" };
    await store.put(one, 0, Buffer.from("one"));
    await store.put(one, 5, Buffer.from("five"));
    await store.put(other, 0, Buffer.from("other"));
    await store.put(foreign, 0, Buffer.from("foreign"));
    await store.remove({ ...one, parts: 6 });
    await store.remove({ ...one, parts: 6 });
    expect([await store.get(one, 0), await store.get(one, 5)]).toEqual([null, null]);
    expect(await store.size({ ...one, parts: 6 })).toBe(0);
    expect((await listed()).map(({ tenant, upload }) => `${tenant}/${upload}`)).toEqual(
      expect.not.arrayContaining([`${one.tenant}/${one.upload}`]),
    );
    expect(Buffer.from((await store.get(other, 0))!).toString()).toBe("other");
    expect(Buffer.from((await store.get(foreign, 0))!).toString()).toBe("foreign");
  });

  test.each([
    { tenant: "../up", upload: uuidv7() },
    { tenant: "a/b", upload: uuidv7() },
    { tenant: "default", upload: "../../etc" },
    { tenant: "default", upload: "" },
  ])("the place %j is refused", async (at) => {
    const { store } = place;
    for (const act of [
      () => store.put(at, 0, Buffer.from("x")),
      () => store.get(at, 0),
      () => store.size({ ...at, parts: 1 }),
      () => store.remove({ ...at, parts: 1 }),
    ]) {
      await expect((async () => void (await act()))()).rejects.toMatchObject({ code: "INVALID" });
    }
  });

  test("of different bytes for one part at the same time, one is stored and the others are refused", async () => {
    const { store } = place;
    for (let round = 0; round < 5; round += 1) {
      const at = fresh();
      const writers = [0, 1, 2, 3].map((n) => partBytes(at.upload, n % 2));
      const done = await Promise.allSettled(writers.map((bytes) => store.put(at, 0, bytes)));
      const stored = (await store.get(at, 0))!;
      for (const [n, { status }] of done.entries())
        expect(status === "fulfilled").toBe(writers[n]!.equals(stored));
      expect(done.filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(0);
    }
  });

  test("a removal while parts are read gives whole parts or none", async () => {
    const { store } = place;
    const at = fresh();
    const parts = 6;
    for (let part = 0; part < parts; part += 1) await store.put(at, part, partBytes(at.upload, part));
    let isRemoved = false;
    const removal = store.remove({ ...at, parts }).then(() => {
      isRemoved = true;
    });
    while (!isRemoved) {
      for (let part = 0; part < parts; part += 1) {
        const bytes = await store.get(at, part);
        if (bytes !== null) expect(partBytes(at.upload, part).equals(bytes)).toBe(true);
      }
    }
    await removal;
    expect(await store.size({ ...at, parts })).toBe(0);
  });

  test("lost bytes are found, and storing the part again brings them back", async () => {
    const { store } = place;
    const at = fresh();
    const bytes = partBytes(at.upload, 0);
    await store.put(at, 0, bytes);
    await place.lose(at, 0);
    expect(await store.get(at, 0)).toBeNull();
    await store.put(at, 0, bytes);
    expect(bytes.equals((await store.get(at, 0))!)).toBe(true);
  });

  test("damaged bytes are never given as whole", async () => {
    const { store } = place;
    const at = fresh();
    const bytes = partBytes(at.upload, 0);
    await store.put(at, 0, bytes);
    await place.damage(at, 0);
    // A folder has no hash of a part: the hash of the artifact shows the damage.
    const read = await store.get(at, 0);
    expect(read === null || !bytes.equals(read)).toBe(true);
  });

  test("fragments of interrupted writes go when they are old, and nothing else goes", async () => {
    const { store } = place;
    const at = fresh();
    await store.put(at, 0, partBytes(at.upload, 0));
    await store.removeFragments(Date.now() + 60_000);
    await place.leaveFragment(at);
    expect(await store.removeFragments(Date.now() - 60_000)).toBe(0);
    expect(await store.removeFragments(Date.now() + 60_000)).toBe(1);
    expect(await store.removeFragments(Date.now() + 60_000)).toBe(0);
    expect(partBytes(at.upload, 0).equals((await store.get(at, 0))!)).toBe(true);
  });

  test("a process that is killed while it stores leaves whole parts or none, and all that it has confirmed", async () => {
    for (let kill = 0; kill < KILLS; kill += 1) {
      const at = fresh();
      const child = spawn(process.execPath, [program, place.address, at.upload], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const confirmed: number[] = [];
      const ended = once(child, "exit");
      for await (const line of createInterface({ input: child.stdout })) {
        if (line === "ready") continue;
        confirmed.push(Number(line));
        if (confirmed.length === 3 + 2 * kill) child.kill("SIGKILL");
      }
      await ended;
      expect(child.signalCode).toBe("SIGKILL");
      const last = confirmed.length + 2;
      for (let part = 0; part < last; part += 1) {
        const bytes = await place.store.get(at, part);
        if (bytes !== null) expect(partBytes(at.upload, part).equals(bytes)).toBe(true);
        else expect(confirmed).not.toContain(part);
      }
      // Another process continues.
      await place.store.put(at, last, partBytes(at.upload, last));
      await place.store.removeFragments(Date.now() + 60_000);
      for (const part of [...confirmed, last])
        expect(partBytes(at.upload, part).equals((await place.store.get(at, part))!)).toBe(true);
      await place.store.remove({ ...at, parts: last + 1 });
    }
  });
});
