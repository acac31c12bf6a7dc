// Logins of a person in a browser: the authorization code flow with PKCE and a redirect to a loopback port of this process (RFC 8252). The fleet verifies
// the tokens itself; this program only brings them.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Configuration } from "openid-client";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { SigningRequest } from "../../../../shared/protocol/esign.ts";
import { isLoopback } from "../../../../shared/runtime/loopback.ts";
import { openBrowser } from "./open-browser.ts";
import { PERSON_WAIT_MS, unanswered } from "./unanswered.ts";

const CALLBACK = "/callback";
/** For the last page to reach the browser. */
const CLOSE_MS = 1_000;

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
} as const;

export interface Login {
  /** A usual login, by which the program learns the person. */
  identify(): Promise<{ readonly subject: string; readonly name: string }>;
  /** A fresh login for this nonce. `show` takes its address. Resolves with the ID token. */
  stepUp(nonce: string, show: (url: string) => void): Promise<string>;
  /** Answers the browser that came back from a login, if it still waits. */
  answer(page: string): void;
  /** The same, with the address of another page. */
  redirect(url: string): void;
  close(): Promise<void>;
}

interface LoginOptions {
  /** Whether to open the addresses in a browser. */
  readonly open: boolean;
  readonly notice: LoginNotice;
}

/** Asks the person to open an address. */
export type LoginNotice = (note: string, url: string) => void;

type Issuer = SigningRequest["issuers"][number];

export async function openLogin(issuer: Issuer, options: LoginOptions): Promise<Login> {
  const oidc = await import("openid-client");
  const url = new URL(issuer.issuer);
  const config = await oidc
    .discovery(url, issuer.client_id, undefined, oidc.None(), {
      // A provider of a test on this machine.
      execute: url.protocol === "http:" && isLoopback(url.hostname) ? [oidc.allowInsecureRequests] : [],
    })
    .catch((error: unknown) => {
      throw providerFailure(issuer, error);
    });
  const callbacks = new Callbacks();
  await callbacks.listen();
  return new BrowserLogin(oidc, config, issuer, callbacks, options);
}

class BrowserLogin implements Login {
  readonly #oidc: typeof import("openid-client");
  readonly #config: Configuration;
  readonly #issuer: Issuer;
  readonly #callbacks: Callbacks;
  readonly #options: LoginOptions;

  constructor(
    oidc: typeof import("openid-client"),
    config: Configuration,
    issuer: Issuer,
    callbacks: Callbacks,
    options: LoginOptions,
  ) {
    this.#oidc = oidc;
    this.#config = config;
    this.#issuer = issuer;
    this.#callbacks = callbacks;
    this.#options = options;
  }

  async identify(): Promise<{ subject: string; name: string }> {
    const { claims } = await this.#login(this.#oidc.randomNonce(), {}, (url) => {
      this.#options.notice("Open this address in a browser, and log in:", url);
      if (this.#options.open) openBrowser(url);
    });
    const name = claims[this.#issuer.name_claim];
    if (typeof name !== "string")
      throw new FleetError("FORBIDDEN", "the identity provider names no person in the token", {
        details: { claim: this.#issuer.name_claim, scope: this.#issuer.scope },
      });
    return { subject: claims.sub, name };
  }

  async stepUp(nonce: string, show: (url: string) => void): Promise<string> {
    const { acr_values: levels } = this.#issuer;
    const prompts = this.#config.serverMetadata().prompt_values_supported;
    const fresh = {
      max_age: "0",
      ...((!Array.isArray(prompts) || prompts.includes("login")) && { prompt: "login" }),
      ...(levels !== undefined && { acr_values: levels.join(" ") }),
    };
    const { token } = await this.#login(nonce, fresh, show);
    return token;
  }

  answer(page: string): void {
    this.#callbacks.answer(page);
  }

  redirect(url: string): void {
    this.#callbacks.redirect(url);
  }

  close(): Promise<void> {
    return this.#callbacks.close();
  }

  async #login(nonce: string, parameters: Record<string, string>, show: (url: string) => void) {
    const oidc = this.#oidc;
    const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
    const state = oidc.randomState();
    const url = oidc.buildAuthorizationUrl(this.#config, {
      redirect_uri: `${this.#callbacks.url}${CALLBACK}`,
      scope: this.#issuer.scope,
      code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
      code_challenge_method: "S256",
      state,
      nonce,
      ...parameters,
    });
    const returned = this.#callbacks.next(state);
    show(url.href);
    const tokens = await oidc
      .authorizationCodeGrant(this.#config, await returned, {
        pkceCodeVerifier,
        expectedState: state,
        expectedNonce: nonce,
        idTokenExpected: true,
      })
      .catch((error: unknown) => {
        throw providerFailure(this.#issuer, error);
      });
    return { token: tokens.id_token as string, claims: tokens.claims()! };
  }
}

/** The text of a library's error may repeat parts of a token, so only its code is shown. */
function providerFailure({ issuer }: Issuer, error: unknown): FleetError {
  const { code, error: named } = error as { readonly code?: unknown; readonly error?: unknown };
  return new FleetError("UNAVAILABLE", "the login at the identity provider failed", {
    details: { issuer, problem: named ?? code ?? "unreachable" },
    cause: error,
  });
}

/** The loopback port to which the provider sends the browser back. */
class Callbacks {
  readonly #server: Server = createServer((request, response) => this.#handle(request, response));
  #expected: { readonly state: string; readonly resolve: (url: URL) => void } | undefined;
  #waiting: ServerResponse | undefined;
  #timer: NodeJS.Timeout | undefined;

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(0, "127.0.0.1", resolve);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Resolves with the address at which the browser comes back. Throws TIMEOUT. */
  next(state: string): Promise<URL> {
    return new Promise((resolve, reject) => {
      this.#timer = setTimeout(() => reject(unanswered("the person did not log in in time")), PERSON_WAIT_MS);
      this.#expected = {
        state,
        resolve: (url) => {
          clearTimeout(this.#timer);
          resolve(url);
        },
      };
    });
  }

  /** Answers the browser, if it waits. */
  answer(page: string): void {
    this.#waiting?.writeHead(200, HEADERS).end(page);
    this.#waiting = undefined;
  }

  redirect(location: string): void {
    this.#waiting?.writeHead(303, { ...HEADERS, location }).end();
    this.#waiting = undefined;
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeIdleConnections();
      // A browser that keeps a connection open must not keep the program.
      setTimeout(() => this.#server.closeAllConnections(), CLOSE_MS).unref();
    });
  }

  /** The state is a secret of this login, so no other page can answer for the provider. */
  #handle(request: IncomingMessage, response: ServerResponse): void {
    const address = request.url ?? "/";
    const url = URL.canParse(address, this.url) ? new URL(address, this.url) : null;
    const expected = this.#expected;
    if (
      url?.pathname !== CALLBACK ||
      expected === undefined ||
      url.searchParams.get("state") !== expected.state
    ) {
      response.writeHead(404).end();
      return;
    }
    this.#expected = undefined;
    this.#waiting = response;
    response.setHeader("connection", "close");
    expected.resolve(url);
  }
}
