/** Callers with an API key. A record is read again every second, so a removed key ends without a restart. */
import { credentialsOfKey, isSecretOf, readApiKey } from "../../../shared/bus/api-keys.ts";
import type { BusCredentials } from "../../../shared/bus/connection.ts";
import type { ApiKeyParts, ApiKeyRecord } from "../../../shared/protocol/api-key.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { CallerIdentity } from "./identity.ts";

const KEPT_MS = 1_000;
const RECORDS_MAX = 1_000;

interface KnownRecord {
  readonly record: ApiKeyRecord;
  readonly readAt: number;
}

export class ApiKeyIdentities {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #known = new Map<string, KnownRecord>();

  constructor(folder: string, clock: Clock, log: Logger) {
    this.#folder = folder;
    this.#clock = clock;
    this.#log = log;
  }

  /** Throws UNAUTHORIZED. */
  identify({ id, secret }: ApiKeyParts): CallerIdentity {
    const record = this.#record(id);
    if (record === undefined || !isSecretOf(record, secret))
      throw new FleetError("UNAUTHORIZED", "the API key is not known, or it was revoked");
    const { tenant, name, role, scopes, expires_at } = record;
    return {
      key: `${id} ${record.digest}`,
      client: `key ${id}`,
      tenant,
      name,
      role,
      scopes,
      isApiKey: true,
      expiresAt: expires_at === null ? null : Date.parse(expires_at),
      credentials: () => this.#opened(record, secret),
    };
  }

  #record(id: string): ApiKeyRecord | undefined {
    const now = this.#clock.monotonic();
    const known = this.#known.get(id);
    if (known !== undefined && now - known.readAt < KEPT_MS) return known.record;
    this.#known.delete(id);
    const record = this.#read(id);
    if (record === undefined) return undefined;
    if (this.#known.size >= RECORDS_MAX) this.#known.delete(this.#known.keys().next().value as string);
    this.#known.set(id, { record, readAt: now });
    return record;
  }

  #read(id: string): ApiKeyRecord | undefined {
    try {
      return readApiKey(this.#folder, id);
    } catch (error) {
      this.#log.error({ error, key_id: id }, "the record of an API key cannot be read");
      return undefined;
    }
  }

  #opened(record: ApiKeyRecord, secret: string): BusCredentials | undefined {
    try {
      const creds = credentialsOfKey(record, secret);
      return creds === null ? undefined : { creds };
    } catch (error) {
      this.#log.error({ error, key_id: record.id }, "the record of an API key was changed");
      throw new FleetError("UNAUTHORIZED", "the record of the API key was changed; make a new key");
    }
  }
}
