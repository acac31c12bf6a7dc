/** The operations on electronic signatures of people. */
import { changeRoute, type RestRoute, readRoute } from "./route.ts";

export const SIGNATURES: readonly RestRoute[] = [
  readRoute(
    "listSignatures",
    "/tasks/{task_id}/signatures",
    "signatures",
    "The electronic signatures of a task, each with what verifies it.",
    "signatures",
  ),
  readRoute(
    "getSigningRequest",
    "/tasks/{task_id}/signing-request",
    "signatures",
    "What a person would sign now, and the identity providers that the fleet accepts.",
    "signing_request",
  ),
  changeRoute(
    "addSignature",
    "/tasks/{task_id}/signatures",
    "signatures",
    "Add the electronic signature of a person. API keys are refused.",
    { kind: "command", op: "signature_add" },
  ),
  readRoute("listSigners", "/signers", "signatures", "The people who have signed.", "signers"),
  changeRoute("revokeSigner", "/signers/revoke", "signatures", "Refuse later signatures of a person.", {
    kind: "query",
    op: "signer_revoke",
  }),
  changeRoute(
    "revokePasskey",
    "/passkeys/{passkey_id}/revoke",
    "signatures",
    "Refuse later signatures with a passkey.",
    { kind: "query", op: "passkey_revoke" },
  ),
];
