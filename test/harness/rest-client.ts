// A client of the HTTP API, and the keys of its callers, made with the keys of a test fleet.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readAccountName } from "../../shared/bus/access/keys.ts";
import { ACCESS_FOLDER, issueLocally } from "../../shared/bus/access/local-credentials.ts";
import { apiKeysFolder, createApiKey } from "../../shared/bus/api-keys.ts";
import type { ClientRole } from "../../shared/protocol/roles.ts";
import type { TestFleet } from "./processes/fleet.ts";

type Json = Record<string, unknown>;

export interface RestAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The body as JSON; undefined: none. */
  readonly body: Json;
}

export interface RestClient {
  readonly key: string;
  get(path: string, headers?: Record<string, string>): Promise<RestAnswer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<RestAnswer>;
  send(method: string, path: string, init?: RequestInit): Promise<RestAnswer>;
}

/** `path`: below /api/v1. */
export function restClient(url: () => string, key: string): RestClient {
  const send = async (method: string, path: string, init: RequestInit = {}): Promise<RestAnswer> => {
    const answer = await fetch(`${url()}/api/v1${path}`, {
      method,
      ...init,
      headers: { authorization: `Bearer ${key}`, ...(init.headers as Record<string, string>) },
    });
    const text = await answer.text();
    const body = (text === "" ? undefined : JSON.parse(text)) as Json;
    return { status: answer.status, headers: answer.headers, body };
  };
  return {
    key,
    send,
    get: (path, headers = {}) => send("GET", path, { headers }),
    post: (path, body, headers = {}) =>
      send("POST", path, {
        headers: { "content-type": "application/json", ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
  };
}

/** The client of the fleet's own user. */
export function ownRestClient(fleet: TestFleet): RestClient {
  const key = readFileSync(join(fleet.home, "client", "api-key"), "utf8").trim();
  return restClient(fleet.gatewayUrl, key);
}

interface KeyHolder {
  readonly name: string;
  readonly role?: ClientRole;
  readonly tenant?: string;
  readonly scopes?: readonly string[];
  readonly expiresAt?: Date | null;
}

/** A client with a new API key, which the fleet's register does not have. */
export async function newRestClient(
  fleet: TestFleet,
  { name, role = "agent", tenant = "default", scopes, expiresAt = null }: KeyHolder,
): Promise<RestClient> {
  const credentials = await issueLocally(fleet.home, { role, tenant, name });
  const { key } = createApiKey(apiKeysFolder(fleet.home, {}), {
    tenant,
    name,
    role,
    scopes: scopes ?? null,
    grant: null,
    account: readAccountName(join(fleet.home, ACCESS_FOLDER)) ?? null,
    credentials: credentials ?? null,
    expiresAt,
    now: new Date(),
  });
  return restClient(fleet.gatewayUrl, key);
}
