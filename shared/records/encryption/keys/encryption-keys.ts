/** The keys of the rows of encryption at rest. The table in `shared/records/kv/keyspace.ts` says what they hold. */
import type { Bytes, KeyRange } from "../../../store/store.ts";
import { children, elementsOf, name, number } from "../../kv/key-elements.ts";

export function dataKeyKeys(at: (subspace: "data_keys" | "tenant_keys", ...parts: Buffer[]) => Buffer) {
  return {
    dataKeys: (task: string): Bytes => at("data_keys", name(task)),
    dataKeysOfTasks: (): KeyRange => children(at("data_keys")),
    tenantDataKeys: (): Bytes => at("tenant_keys"),
  };
}

type SystemSubspace = "bucket_keys" | "system_keys" | "encryption";

export function encryptionKeys(at: (subspace: SystemSubspace, ...parts: Buffer[]) => Buffer) {
  return {
    /** `tenant` null: of the system. */
    bucketKey: (tenant: string | null, generation: number): Bytes =>
      at("bucket_keys", name(tenant ?? ""), number(generation)),
    bucketKeysOf: (tenant: string | null): KeyRange => children(at("bucket_keys", name(tenant ?? ""))),
    bucketKeys: (): KeyRange => children(at("bucket_keys")),
    systemDataKeys: (): Bytes => at("system_keys"),
    encryption: (): Bytes => at("encryption"),
    encryptionRotation: (): Bytes => at("encryption", name("rotation")),
  };
}

/** Reads tenant (null: the system) and generation out of a `bucket_keys` key. */
export function parseBucketKey(key: Bytes): { tenant: string | null; generation: number } {
  const [tenant, generation] = elementsOf(key).slice(-2) as [string, number];
  return { tenant: tenant === "" ? null : tenant, generation };
}
