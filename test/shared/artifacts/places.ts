// The places of artifacts under test, and ways to damage what is in them that the fleet has no part in.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { uuidv7 } from "uuidv7";
import type { ArtifactStore, UploadPlace } from "../../../shared/artifacts/artifact-store.ts";
import { ArtifactBucket } from "../../../shared/artifacts/bucket.ts";
import { ARTIFACT_KEY_FILE, EncryptedArtifacts } from "../../../shared/artifacts/encrypted-artifacts.ts";
import { ArtifactFolder } from "../../../shared/artifacts/folder.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { artifactStream } from "../../../shared/bus/streams/streams.ts";
import { dataKeySource } from "../../../shared/integrity/encryption/data-key-source.ts";
import { ARTIFACT_BUCKET } from "../../../shared/protocol/object-bucket.ts";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";

/** Before the address of an encrypted folder, which has its root key in a file. */
const ENCRYPTED = "encrypted:";
const ROOT_KEY = ".root-key";

export const FLEET = "fleet-under-test";
const MIB = 1024 * 1024;

export interface TestPlace {
  readonly store: ArtifactStore;
  /** Opens the place in another process: see `putter.program.ts`. */
  readonly address: string;
  /** Flips a bit of a part. */
  damage(place: UploadPlace, part: number): Promise<void>;
  /** Removes the bytes of a part and leaves what else there is of it. */
  lose(place: UploadPlace, part: number): Promise<void>;
  /** Leaves what a process leaves that dies while it writes a part of the upload. */
  leaveFragment(place: UploadPlace): Promise<void>;
  close(): Promise<void>;
}

export const PLACES: Readonly<Record<string, () => Promise<TestPlace>>> = {
  folder: async () => folderPlace(""),
  "folder that is encrypted": async () => folderPlace(ENCRYPTED),
  bucket: () => bucketPlace(),
};

/** The store at the address of a place, in any process. */
export async function openAddress(
  address: string,
): Promise<{ store: ArtifactStore; close(): Promise<void> }> {
  if (address.startsWith(ENCRYPTED)) {
    const path = address.slice(ENCRYPTED.length);
    return { store: encryptedFolder(path, [`file:${join(path, ROOT_KEY)}`]), close: async () => {} };
  }
  if (!address.startsWith("nats:")) return { store: new ArtifactFolder(address), close: async () => {} };
  const bus = await connectBus({ url: address, name: "artifacts", identity: uuidv7(), log: testLog });
  await bus.reconcileStreams([artifactStream({ artifactBytes: 64 * MIB })]);
  return { store: new ArtifactBucket(bus.bucket(ARTIFACT_BUCKET.name), FLEET), close: () => bus.close() };
}

export function encryptedFolder(path: string, sources: readonly string[] | undefined): ArtifactStore {
  const key = { sources, setting: "FLEET_ENCRYPTION_KEY", env: {}, context: "artifacts" };
  const file = join(path, ARTIFACT_KEY_FILE);
  return new EncryptedArtifacts(new ArtifactFolder(path), dataKeySource({ ...key, file }));
}

async function folderPlace(prefix: string): Promise<TestPlace> {
  const folder = mkdtempSync(join(tmpdir(), "fleet-artifact-store-"));
  newEncryptionKeyFile(join(folder, ROOT_KEY));
  const address = prefix + folder;
  const { store } = await openAddress(address);
  const pathOf = ({ tenant, upload }: UploadPlace, name: string) => join(folder, tenant, upload, name);
  return {
    store,
    address,
    damage: async (place, part) => {
      const path = pathOf(place, String(part));
      const bytes = readFileSync(path);
      bytes[0]! ^= 1;
      writeFileSync(path, bytes);
    },
    lose: async (place, part) => rmSync(pathOf(place, String(part))),
    leaveFragment: async (place) => writeFileSync(pathOf(place, `.${uuidv7()}`), "half"),
    close: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function bucketPlace(): Promise<TestPlace> {
  const nats = await startNats();
  const { store, close } = await openAddress(nats.url);
  const admin = await connect({ servers: nats.url });
  const manager = await jetstreamManager(admin);
  const { stream, content, record } = ARTIFACT_BUCKET;
  const contentOf = async ({ tenant, upload }: UploadPlace, part: number): Promise<string> => {
    const query = { last_by_subj: record(`${FLEET}/${tenant}/${upload}/${part}`) };
    const found = await manager.streams.getMessage(stream, query);
    return content(found!.json<{ nuid: string }>().nuid);
  };
  return {
    store,
    address: nats.url,
    damage: async (place, part) => {
      const subject = await contentOf(place, part);
      const bytes = Buffer.from((await manager.streams.getMessage(stream, { last_by_subj: subject }))!.data);
      bytes[0]! ^= 1;
      await manager.streams.purge(stream, { filter: subject });
      await jetstream(admin).publish(subject, bytes);
    },
    lose: async (place, part) => {
      await manager.streams.purge(stream, { filter: await contentOf(place, part) });
    },
    leaveFragment: async () => {
      await jetstream(admin).publish(content("fragment"), "half");
    },
    close: async () => {
      await close();
      await admin.close();
      await nats.stop();
    },
  };
}
