// A real identity provider (oidc-provider) on loopback, and the browser of a person who logs in there. The page of the provider's login is answered at
// once for the person who sits at the browser, in place of a password.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair } from "jose";
import Provider from "oidc-provider";
import * as oidc from "openid-client";

export const CLIENT = "fleet-signing";
/** Another client of the same provider. */
export const OTHER_CLIENT = "wiki";

export interface Seat {
  /** The `sub` of the person who logs in next. */
  subject: string;
  /** Seconds from now at which the provider says that the person logged in. */
  loggedInAt: number;
  acr?: string;
  amr?: string[];
}

export interface IdentityProvider {
  readonly url: string;
  readonly keysUrl: string;
  /** The person at the browser. */
  readonly seat: Seat;
  /** Follows the address as a browser does, up to the loopback port of the program. Returns the page there. */
  visit(url: string): Promise<string>;
  /** The ID token of a login with these parameters, as a program of the test gets it. */
  token(parameters: { readonly nonce: string; readonly client?: string }): Promise<string>;
  /** The provider goes over to another key. */
  rotate(): Promise<void>;
  close(): Promise<void>;
}

const NAMES: Readonly<Record<string, string>> = { ada: "Ada Lovelace", grace: "Grace Hopper" };
const REDIRECT = "http://127.0.0.1/callback";

export async function startIdentityProvider(): Promise<IdentityProvider> {
  const seat: Seat = { subject: "ada", loggedInAt: 0 };
  let provider: Provider;
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!request.url?.startsWith("/interaction/")) return provider.callback()(request, response);
    const { params } = await provider.interactionDetails(request, response);
    const { subject: accountId, loggedInAt, acr, amr } = seat;
    const grant = new provider.Grant({ accountId, clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    const ts = Math.floor(Date.now() / 1_000) + loggedInAt;
    const result = {
      login: { accountId, ts, ...(acr !== undefined && { acr }), ...(amr !== undefined && { amr }) },
      consent: { grantId: await grant.save() },
    };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  }

  async function rotate(): Promise<void> {
    const { privateKey } = await generateKeyPair("RS256", { extractable: true });
    const key = { ...(await exportJWK(privateKey)), use: "sig", alg: "RS256" };
    provider = new Provider(url, configurationWith(key));
  }

  await rotate();
  const jar = new Map<string, string>();
  return {
    url,
    keysUrl: `${url}/jwks`,
    seat,
    rotate,
    visit: (address) => visit(address, url, jar),
    token: (parameters) => login(url, parameters),
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

const configurationWith = (key: object) => ({
  clients: [CLIENT, OTHER_CLIENT].map((client_id) => ({
    client_id,
    application_type: "native",
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code"],
    response_types: ["code"],
    redirect_uris: [REDIRECT],
    require_auth_time: true,
  })),
  jwks: { keys: [key] },
  conformIdTokenClaims: false,
  claims: { openid: ["sub", "acr", "amr"], profile: ["name"] },
  findAccount: (_: unknown, id: string) => ({
    accountId: id,
    claims: async () => ({ sub: id, name: NAMES[id] ?? id }),
  }),
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_: unknown, { uid }: { readonly uid: string }) => `/interaction/${uid}` },
  cookies: { keys: ["a key of the test"] },
  pkce: { required: () => true },
});

/** Resolves with the page at the first address outside of the provider. */
async function visit(start: string, provider: string, jar: Map<string, string>): Promise<string> {
  for (let at = start; ; ) {
    const isHome = at.startsWith(provider);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(at, { redirect: "manual", ...(isHome && { headers: { cookie } }) });
    if (!isHome) return answer.text();
    for (const line of answer.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "") jar.delete(name);
      else jar.set(name, value);
    }
    const next = answer.headers.get("location");
    if (next === null) throw new Error(`the provider answered ${answer.status}: ${await answer.text()}`);
    at = new URL(next, at).href;
  }
}

async function login(
  url: string,
  { nonce, client = CLIENT }: { readonly nonce: string; readonly client?: string },
): Promise<string> {
  const config = await oidc.discovery(new URL(url), client, undefined, oidc.None(), {
    execute: [oidc.allowInsecureRequests],
  });
  const callback = createServer();
  await new Promise<void>((done) => callback.listen(0, "127.0.0.1", done));
  const redirect_uri = `http://127.0.0.1:${(callback.address() as AddressInfo).port}/callback`;
  const back = new Promise<URL>((resolve) => {
    callback.on("request", (request, response) => {
      response.setHeader("connection", "close");
      response.end();
      resolve(new URL(request.url ?? "/", redirect_uri));
    });
  });
  try {
    const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
    const address = oidc.buildAuthorizationUrl(config, {
      redirect_uri,
      scope: "openid profile",
      code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: "S256",
      nonce,
      max_age: "0",
      prompt: "login",
    });
    await visit(address.href, url, new Map());
    const checks = { pkceCodeVerifier, expectedNonce: nonce, idTokenExpected: true };
    return (await oidc.authorizationCodeGrant(config, await back, checks)).id_token as string;
  } finally {
    callback.close();
  }
}
