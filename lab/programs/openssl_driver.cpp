// OpenSSL 3 in threads that share its algorithms. The program either fetches digests, or makes TLS 1.3 handshakes over
// memory: client and server are two objects of one thread, and all threads share the two contexts. In both cases
// OpenSSL takes read-write locks that all threads share (openssl#20286). Every digest and every handshake is verified.
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "options.hpp"
#include "team.hpp"

namespace {

using workloads::fail;

template <auto Free>
struct freed {
  template <class T>
  void operator()(T* it) const {
    Free(it);
  }
};
using digest = std::unique_ptr<EVP_MD, freed<EVP_MD_free>>;
using key_pair = std::unique_ptr<EVP_PKEY, freed<EVP_PKEY_free>>;
using certificate = std::unique_ptr<X509, freed<X509_free>>;
using context = std::unique_ptr<SSL_CTX, freed<SSL_CTX_free>>;
using connection = std::unique_ptr<SSL, freed<SSL_free>>;

void must(bool good, const char* what) {
  if (!good) fail(std::string("OpenSSL: ") + what);
}

constexpr std::array<unsigned char, 4> sha256_of_nothing = {0xe3, 0xb0, 0xc4, 0x42};

void fetch() {
  const digest sha256(EVP_MD_fetch(nullptr, "SHA256", nullptr));
  must(sha256 != nullptr, "EVP_MD_fetch");
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  must(EVP_Digest("", 0, out, &length, sha256.get(), nullptr) == 1, "EVP_Digest");
  must(length == 32 && std::memcmp(out, sha256_of_nothing.data(), sha256_of_nothing.size()) == 0, "a wrong digest");
}

/// The TLS contexts of server and client: a certificate that the server has signed itself, and a client that trusts
/// only this certificate.
class ends {
 public:
  ends()
      : key_(EVP_EC_gen("P-256")),
        signed_(X509_new()),
        server_(SSL_CTX_new(TLS_server_method())),
        client_(SSL_CTX_new(TLS_client_method())) {
    must(key_ && signed_ && server_ && client_, "contexts");
    X509_set_version(signed_.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(signed_.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(signed_.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(signed_.get()), 86400);
    X509_set_pubkey(signed_.get(), key_.get());
    X509_NAME* const name = X509_get_subject_name(signed_.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(signed_.get(), name);
    must(X509_sign(signed_.get(), key_.get(), EVP_sha256()) != 0, "X509_sign");
    must(SSL_CTX_use_certificate(server_.get(), signed_.get()) == 1, "certificate");
    must(SSL_CTX_use_PrivateKey(server_.get(), key_.get()) == 1, "private key");
    SSL_CTX_set_session_cache_mode(server_.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(server_.get(), 0);
    must(X509_STORE_add_cert(SSL_CTX_get_cert_store(client_.get()), signed_.get()) == 1, "trust");
    SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, nullptr);
  }

  void handshake() const {
    const connection server(SSL_new(server_.get())), client(SSL_new(client_.get()));
    must(server && client, "SSL_new");
    BIO *of_server = nullptr, *of_client = nullptr;
    must(BIO_new_bio_pair(&of_server, 0, &of_client, 0) == 1, "BIO_new_bio_pair");
    SSL_set_bio(server.get(), of_server, of_server);
    SSL_set_bio(client.get(), of_client, of_client);
    SSL_set_accept_state(server.get());
    SSL_set_connect_state(client.get());
    for (int turn = 0; !SSL_is_init_finished(server.get()) || !SSL_is_init_finished(client.get()); ++turn) {
      must(turn < 100, "a handshake does not end");
      for (SSL* const side : {client.get(), server.get()}) {
        const int done = SSL_do_handshake(side);
        must(done == 1 || SSL_get_error(side, done) == SSL_ERROR_WANT_READ, "SSL_do_handshake");
      }
    }
    must(SSL_get_verify_result(client.get()) == X509_V_OK, "the certificate was not verified");
  }

 private:
  key_pair key_;
  certificate signed_;
  context server_, client_;
};

}  // namespace

int main(int argc, char** argv) {
  long threads = 8;
  workloads::budget limit;
  std::string what = "fetch";
  workloads::options o("openssl_driver",
                       "OpenSSL 3 in many threads: fetches of a digest, or TLS handshakes over memory");
  o.number("threads", threads, 1, 4096, "(8)");
  o.real("seconds", limit.seconds, 0.01, 86400, "how long (2)");
  o.number("operations", limit.operations, 1, 1L << 40, "this many in all instead");
  o.text("what", what, "fetch or handshake (fetch)");
  o.parse(argc, argv);
  if (what != "fetch" && what != "handshake") fail("--what is fetch or handshake", 2);

  const ends both;
  const auto result = workloads::run_team(threads, limit, [&](long, workloads::allowance& mine) {
    while (mine.another()) what == "fetch" ? fetch() : both.handshake();
    OPENSSL_thread_stop();
  });
  std::printf("%s: throughput: %.0f operations/s\n", what.c_str(), result.rate());
  return 0;
}
