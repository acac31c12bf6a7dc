// Whether stored bytes still have their hash: slow places, parts that change while they are read, and how long a result counts.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { expect, onTestFinished, test } from "vitest";
import { createSoundness, type StoredArtifact } from "../../../services/reader/artifacts/soundness.ts";
import type { ArtifactStore } from "../../../shared/artifacts/artifact-store.ts";
import { ArtifactFolder } from "../../../shared/artifacts/folder.ts";
import { partSize, partsOf } from "../../../shared/protocol/artifacts.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { newFolder } from "../../fleet/artifacts/bytes.ts";
import { manualClock } from "../../harness/clock.ts";
import { encryptedFolder, PLACES } from "../../shared/artifacts/places.ts";

const TRUSTED_MS = 10_000;
const PARTS = 4;

function artifactOf(bytes: Buffer): StoredArtifact {
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const times = { storedMs: 0, storedBy: "agent-1", touchedMs: 0, isDamaged: false };
  return { tenant: "default", sha256, record: { size: bytes.length, upload: uuidv7(), ...times } };
}

async function stored(store: Pick<ArtifactStore, "put">, bytes: Buffer): Promise<StoredArtifact> {
  const artifact = artifactOf(bytes);
  const { tenant, record } = artifact;
  for (let part = 0, from = 0; part < partsOf(bytes.length); part += 1) {
    const end = from + partSize(bytes.length, part);
    await store.put({ tenant, upload: record.upload }, part, bytes.subarray(from, end));
    from = end;
  }
  return artifact;
}

function tempFolder(): string {
  const folder = newFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Counts the reads, and calls `before` with the number of each, from 1. */
function counted(store: Pick<ArtifactStore, "get" | "state">, before?: (read: number) => Promise<void>) {
  const counts = { reads: 0, looks: 0 };
  const bytes: Pick<ArtifactStore, "get" | "state"> = {
    get: async (place, part) => {
      counts.reads += 1;
      await before?.(counts.reads);
      return store.get(place, part);
    },
    state: (upload) => {
      counts.looks += 1;
      return store.state(upload);
    },
  };
  return { bytes, counts };
}

test("a place that needs longer for a look than a request waits ends with a result, and requests at the same time share the look", async () => {
  const clock = manualClock();
  const content = Buffer.from("slow");
  const { bytes, counts } = counted({
    get: async () => content,
    state: async () => {
      await clock.sleep(700);
      return "unchanged";
    },
  });
  const soundness = createSoundness(clock);
  const artifact = artifactOf(content);
  const answers = async (count: number) => {
    let isOpen = true;
    const requests = Array.from({ length: count }, () =>
      soundness.now(bytes, artifact).catch(({ code }) => code),
    );
    const all = Promise.all(requests).finally(() => {
      isOpen = false;
    });
    while (isOpen) await clock.advance(100);
    return all;
  };
  // Two looks of 700 ms, while each request waits for 500 ms.
  expect(await answers(1)).toEqual(["UNAVAILABLE"]);
  expect(await answers(2)).toEqual(["UNAVAILABLE", "UNAVAILABLE"]);
  expect(await answers(1)).toEqual([true]);
  expect(counts).toEqual({ reads: 1, looks: 2 });
  expect(await answers(3)).toEqual([true, true, true]);
  expect(counts).toEqual({ reads: 1, looks: 3 });
});

test("a verification that encrypts plain parts is joined by later requests, and its result counts after it", async () => {
  const folder = tempFolder();
  const key = join(folder, ".root-key");
  newEncryptionKeyFile(key);
  const artifact = await stored(new ArtifactFolder(folder), randomBytes(PARTS * LIMITS.artifact_part_bytes));
  const soundness = createSoundness(manualClock());
  let joined: Promise<boolean> | undefined;
  const { bytes, counts } = counted(encryptedFolder(folder, [`file:${key}`]), async (read) => {
    // The first part is encrypted by now.
    if (read === 2) joined = soundness.whole(bytes, artifact);
  });
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  expect(await joined).toBe(true);
  // Once as plain parts, and once as they stay.
  expect(counts.reads).toBe(2 * PARTS);
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  expect(counts.reads).toBe(2 * PARTS);
});

test("a part that another program changes behind the reading is found", async () => {
  const folder = tempFolder();
  const store = new ArtifactFolder(folder);
  const artifact = await stored(store, randomBytes(PARTS * LIMITS.artifact_part_bytes));
  const damage = () => {
    const part = join(folder, artifact.tenant, artifact.record.upload, "0");
    const damaged = readFileSync(part);
    damaged[77]! ^= 4;
    // Another file in its place: the times of a file may be the same after two writes within milliseconds.
    writeFileSync(`${part}.damaged`, damaged);
    renameSync(`${part}.damaged`, part);
  };
  const soundness = createSoundness(manualClock());
  let joined: Promise<boolean> | undefined;
  const { bytes } = counted(store, async (read) => {
    if (read !== 2) return;
    damage();
    joined = soundness.whole(bytes, artifact);
  });
  expect(await soundness.whole(bytes, artifact)).toBe(false);
  expect(await joined).toBe(false);
  damage();
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  damage();
  expect(await soundness.whole(bytes, artifact)).toBe(false);
});

test("a place that gives its files other numbers at each look has a result nevertheless, for 10 seconds", async () => {
  const clock = manualClock();
  const content = Buffer.from("numbered");
  let number = 0;
  const { bytes, counts } = counted({ get: async () => content, state: async () => String(++number) });
  const soundness = createSoundness(clock);
  const artifact = artifactOf(content);
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  const { reads } = counts;
  await clock.advance(TRUSTED_MS);
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  expect(counts.reads).toBe(reads);
  await clock.advance(1);
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  expect(counts.reads).toBe(2 * reads);
});

test("on the bus a result counts for 10 seconds without any request, and a lost part is found at the end", {
  timeout: 120_000,
}, async () => {
  const place = await PLACES.bucket!();
  onTestFinished(() => place.close());
  const clock = manualClock();
  const artifact = await stored(place.store, randomBytes(2 * LIMITS.artifact_part_bytes));
  const { bytes, counts } = counted(place.store);
  const soundness = createSoundness(clock);
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  await place.lose({ tenant: artifact.tenant, upload: artifact.record.upload }, 1);
  await clock.advance(TRUSTED_MS);
  expect(await soundness.whole(bytes, artifact)).toBe(true);
  expect(counts.reads).toBe(2);
  await clock.advance(1);
  expect(await soundness.whole(bytes, artifact)).toBe(false);
});
