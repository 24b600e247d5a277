"""Encrypts and decrypts a secret of a project as barbican does, with barbican's configuration barbican.conf."""

from types import SimpleNamespace

from barbican.plugin.crypto import base, p11_crypto

p11_crypto.CONF(["--config-file", "barbican.conf"], project="barbican")
plugin = p11_crypto.P11CryptoPlugin(p11_crypto.CONF)
empty = SimpleNamespace(kek_label="a project", plugin_name="p11", algorithm=None, bit_length=None, mode=None, plugin_meta=None)
key = plugin.bind_kek_metadata(base.KEKMetaDTO(empty))
secret = b"a secret of the project"
sealed = plugin.encrypt(base.EncryptDTO(secret), key, "project")
assert secret not in sealed.cypher_text
for plugin in (plugin, p11_crypto.P11CryptoPlugin(p11_crypto.CONF)):
    assert plugin.decrypt(base.DecryptDTO(sealed.cypher_text), key, sealed.kek_meta_extended, "project") == secret
made = plugin.generate_symmetric(base.GenerateDTO("AES", 256, None, None), key, "project")
assert len(plugin.decrypt(base.DecryptDTO(made.cypher_text), key, made.kek_meta_extended, "project")) == 32
print("all right")
