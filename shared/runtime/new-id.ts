// A new UUIDv7 (RFC 9562): ids that are made later sort later.

export { uuidv7 as newId } from "uuidv7";
