/**
 * A root key in AWS KMS, through the official client, which is loaded only for such a key. Credentials and endpoint come from where the client finds
 * them: variables, profile, role of the machine. What the key wraps is bound to its place by the encryption context, which CloudTrail records.
 */
import { loadOptional } from "../../runtime/process/optional-package.ts";
import {
  KeyEncryptionError,
  type KeyEncryptionFailure,
  type KeyEncryptionKey,
} from "./key-encryption-key.ts";

const PACKAGE = "@aws-sdk/client-kms";
const ARN = /^arn:aws[a-z-]*:kms:([a-z0-9-]+):\d{12}:key\/[A-Za-z0-9-]+$/;
const CONNECT_MS = 2_000;
/** For one attempt. */
const ANSWER_MS = 5_000;
/** For all attempts. The client waits between them with jitter. */
const WITHIN_MS = 15_000;
const ATTEMPTS = 3;
/** The name of the one member of the encryption context. */
const CONTEXT = "fleet";

const INVALID = new Set(["InvalidCiphertextException", "IncorrectKeyException"]);
const REFUSED = new Set([
  "AccessDeniedException",
  "CredentialsProviderError",
  "DisabledException",
  "ExpiredTokenException",
  "IncompleteSignature",
  "InvalidArnException",
  "InvalidGrantTokenException",
  "InvalidKeyUsageException",
  "InvalidSignatureException",
  "KMSInvalidStateException",
  "MissingAuthenticationTokenException",
  "NotFoundException",
  "UnrecognizedClientException",
  "ValidationException",
]);

/**
 * A key with its region: the client needs no other setting. No alias, which may be moved to another key: what the first key wrapped would then seem
 * to be damaged.
 */
export function isKmsArn(text: string): boolean {
  return ARN.test(text);
}

/** Asks the server for nothing yet. Throws StartupError if the client is not installed. */
export async function openKmsKey(arn: string): Promise<KeyEncryptionKey> {
  const region = ARN.exec(arn)?.[1] ?? "";
  const { DecryptCommand, EncryptCommand, KMSClient } = await loadOptional(
    "a root key in AWS KMS",
    [PACKAGE],
    () => import("@aws-sdk/client-kms"),
  );
  const client = new KMSClient({
    region,
    maxAttempts: ATTEMPTS,
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: ANSWER_MS, throwOnRequestTimeout: true },
  });
  const options = () => ({ abortSignal: AbortSignal.timeout(WITHIN_MS) });
  const place = (context: string) => ({ KeyId: arn, EncryptionContext: { [CONTEXT]: context } });
  return {
    id: `awskms:${arn}`,
    wrap: (key, context) =>
      asked(arn, async () => {
        const command = new EncryptCommand({ ...place(context), Plaintext: key });
        return (await client.send(command, options())).CiphertextBlob;
      }),
    unwrap: (wrapped, context) =>
      asked(arn, async () => {
        const command = new DecryptCommand({ ...place(context), CiphertextBlob: wrapped });
        return (await client.send(command, options())).Plaintext;
      }),
  };
}

async function asked(arn: string, ask: () => Promise<Uint8Array | undefined>): Promise<Uint8Array> {
  const answer = await ask().catch((cause: unknown) => {
    const { name } = cause as Error;
    const [kind, message] = failureOf(name);
    throw new KeyEncryptionError(kind, message, { details: { key: arn, problem: name }, cause });
  });
  if (answer !== undefined) return answer;
  throw new KeyEncryptionError("unavailable", "AWS KMS has given an unexpected answer", {
    details: { key: arn },
  });
}

/** Throttling and faults of the server remain: the client has already tried again. */
function failureOf(name: string): readonly [KeyEncryptionFailure, string] {
  if (INVALID.has(name)) return ["invalid", "the wrapped key does not unwrap"];
  if (REFUSED.has(name)) return ["refused", "AWS KMS has refused the use of the root key"];
  return ["unavailable", "AWS KMS cannot use the root key now"];
}
