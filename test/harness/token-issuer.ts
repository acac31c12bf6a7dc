// An identity provider: its keys over HTTP (JWKS), and tokens that it or a stranger has signed.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

export interface TokenOptions {
  readonly claims?: Record<string, unknown>;
  readonly issuer?: string;
  readonly audience?: string;
  readonly expires?: string | number;
  /** True: with a key that the issuer does not have. */
  readonly forged?: boolean;
}

export interface TokenIssuer {
  readonly url: string;
  token(options?: TokenOptions): Promise<string>;
  close(): void;
}

export const AUDIENCE = "fleet";

export async function startTokenIssuer(): Promise<TokenIssuer> {
  const own = await generateKeyPair("ES256", { extractable: true });
  const stranger = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(own.publicKey)), kid: "1", alg: "ES256", use: "sig" };
  const server = createServer((_, response) => response.end(JSON.stringify({ keys: [jwk] })));
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    token: ({ claims = {}, issuer = url, audience = AUDIENCE, expires = "5m", forged = false } = {}) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: "ES256", kid: "1" })
        .setIssuer(issuer)
        .setAudience(audience)
        .setIssuedAt()
        .setExpirationTime(expires)
        .sign((forged ? stranger : own).privateKey),
    close: () => void server.close(),
  };
}
